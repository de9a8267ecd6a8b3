"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const runs = data.runs;
const compares = runs.length > 1;
const dark = matchMedia("(prefers-color-scheme: dark)");

// Okabe and Ito's colours: those who see red and green alike tell them apart.
const light_palette = ["#0072b2", "#d55e00", "#009e73", "#a0568a", "#8a6d00", "#3a8fc4"];
const dark_palette = ["#56b4e9", "#ff9248", "#2fc7a0", "#e39bc6", "#f0e442", "#9ad0f0"];

// -- small helpers

function add(parent, tag, text, style) {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (style) element.className = style;
    parent.append(element);
    return element;
}

function show(id) {
    const section = document.getElementById(id);
    section.hidden = false;
    return section;
}

const plain = new Intl.NumberFormat("en", {maximumSignificantDigits: 4});

function number(value) { return plain.format(value); }

function time(value) {
    if (value === 0) return "0";
    const units = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
    const [size, unit] = units.find(([size]) => Math.abs(value) >= size * 0.9999) ?? units.at(-1);
    return plain.format(value / size) + " " + unit;
}

function megabytes(value) { return plain.format(value / 1e6); }
function percent(value) { return plain.format(value * 100); }

// -- what the plots are; `of` names lists or histograms of a run, and the first of them is what runs
// are compared by

const plots = [
    {title: "Connections", y: "clients", of: {
        clients_open: "open", clients_silent: "silent", clients_away: "away",
        clients_waiting: "waiting to try again", server_connections: "as the server counts"},
     note: "How many clients the server held at a time: what you buy must hold your busiest moment, not your average."},
    {title: "Packets", y: "packets a second", of: {packets_received: "received", packets_sent: "sent"},
     note: "All MQTT packets, pings included: where the lines part, the server takes more than it answers or delivers."},
    {title: "Messages", y: "messages a second", of: {messages_received: "received", messages_sent: "sent"},
     note: "What your users would send and get: a gap in the received ones that does not fill up again is loss."},
    {title: "Message latency", y: "time, logarithmic", log: true, format: time,
     of: {message_p99: "p99", message_p50: "p50", message_max: "max"},
     note: "From the planned moment to the arrival: one message in a hundred took longer than p99; if it climbs while the load stays level, the server is full."},
    {title: "Ping answers", y: "time, logarithmic", log: true, format: time,
     of: {ping_p99: "p99", ping_p50: "p50", ping_max: "max"},
     note: "How soon the server answers when it has nothing else to do for a client: a measure of its load without that of the receivers."},
    {title: "Acknowledgements", y: "time, logarithmic", log: true, format: time,
     of: {acknowledgement_p99: "p99", acknowledgement_p50: "p50", acknowledgement_max: "max"},
     note: "How long a sender waits until the server has taken charge of a message of QoS 1 or 2: with storage, the speed of the disk."},
    {title: "How long things took", kind: "histogram", x: "time, logarithmic", y: "% of all", format: time,
     of: {message: "messages", acknowledgement: "acknowledgements", ping: "ping answers", login: "logins"},
     note: "A single narrow hill is a server at ease; a second hill far to the right is what some of your users will complain about."},
    {title: "Expiry of silent clients", kind: "expiry", x: "seconds of silence", y: "clients closed",
     of: {expiry: "closed", detection: "shown offline"},
     note: "When the server gave up clients that fell silent: all should lie between the limit and one second later, as early ones were wronged and late ones are ghosts."},
    {title: "Logins", y: "a second",
     of: {connected: "succeeded", refused_busy: "refused as busy", connect_failed: "failed"},
     note: "How fast the server takes clients in: after an outage all of yours come at once, and the rate here says how long they wait."},
    {title: "Login time", y: "time, logarithmic", log: true, format: time,
     of: {login_p99: "p99", login_p50: "p50", login_max: "max"},
     note: "From the connect to the confirmed subscription: what a user waits when the app is opened."},
    {title: "Coming back after the storm", kind: "histogram", x: "time, logarithmic", y: "% of all", format: time,
     of: {back_again: "clients"},
     note: "How long clients were away that all lost their connection at once: the right end is your outage after the outage."},
    {title: "Server CPU", y: "cores", of: {server_cpu: "server"},
     note: "Cores in use: plan to stay below half of what you buy, for storms take the other half."},
    {title: "Server memory", y: "MB", scale: megabytes, of: {server_memory: "resident"},
     note: "Divided by the clients above it is the price of one more; a line that goes on climbing at a level load is a leak."},
    {title: "Server loop lag", y: "time", format: time, of: {server_loop_lag: "worst event loop"},
     note: "How late the server's own clocks ran: above some milliseconds it has more to do than it can."},
    {title: "Nothing heard from the server", y: "time", format: time, of: {server_silence: "longest silence"},
     note: "The longest time in which no client heard anything: a peak of a second or more is a server that stood still."},
    {title: "Generator CPU", y: "cores", of: {worker_cpu: "all processes", worker_cpu_max: "the busiest process"},
     note: "What the measuring itself cost: with a process near one core the figures on this page would be the generator's, not the server's."},
    {title: "Generator lag", y: "time, logarithmic", log: true, format: time,
     of: {send_lag_p99: "messages sent late, p99", loop_lag_max: "event loop, worst"},
     note: "How late the generator was itself: it is part of every latency above, and must be small beside it."},
    {title: "Machine", y: "% of all cores", scale: percent,
     of: {machine_busy: "in use", machine_steal: "taken by other machines"},
     note: "The generator's machine: at 100 %, or with much taken by others, the run says little about the server."},
];

// -- drawing

function theme(printing) {
    const style = getComputedStyle(document.documentElement);
    const is_dark = dark.matches && !printing;
    return {
        palette: is_dark ? dark_palette : light_palette,
        text: printing ? "#1b2430" : style.getPropertyValue("--text").trim(),
        faint: printing ? "#5b6776" : style.getPropertyValue("--faint").trim(),
        line: printing ? "#dde2e8" : style.getPropertyValue("--line").trim(),
    };
}

const mark_rows = 2;

/// Vertical lines where something began; in a comparison only those of the first run.
const marks = {
    id: "marks",
    afterDatasetsDraw(chart) {
        if (!chart.options.over_time) return;
        const {ctx, chartArea: area, scales: {x}} = chart;
        const scale = clock.size;
        ctx.save();
        ctx.font = "11px system-ui, sans-serif";
        ctx.strokeStyle = ctx.fillStyle = chart.options.faint;
        ctx.setLineDash([4, 3]);
        const free = Array(mark_rows).fill(0);  // where the texts of a row end; what finds no room has none
        for (const mark of [...runs[0].marks].sort((a, b) => a.at - b.at)) {
            const at = x.getPixelForValue(mark.at / scale);
            if (at < area.left || at > area.right) continue;
            ctx.beginPath();
            ctx.moveTo(at, area.top);
            ctx.lineTo(at, area.bottom);
            ctx.stroke();
            const width = ctx.measureText(mark.text).width;
            const left = Math.min(at - 2, area.right - width);
            const row = free.findIndex(end => end < left);
            if (row < 0) continue;
            free[row] = left + width + 8;
            ctx.fillText(mark.text, left, area.top - 6 - row * 13);
        }
        ctx.restore();
    },
};

/// The unit of the time axis.
const clock = (() => {
    const end = Math.max(0, ...runs.map(run => run.seconds.at(-1) ?? 0));
    if (end > 3 * 3600) return {size: 3600, name: "hours"};
    if (end > 600) return {size: 60, name: "minutes"};
    return {size: 1, name: "seconds"};
})();

function points_over_time(run, name, scale) {
    return run.lists[name]?.map((value, at) => ({
        x: run.seconds[at] / clock.size, y: value === null ? NaN : scale ? +scale(value).replaceAll(",", "") : value}));
}

function points_of(plot, run, name) {
    if (!plot.kind) return points_over_time(run, name, plot.scale);
    return run.histograms[name]?.map(([x, y]) => ({x, y: plot.kind === "histogram" ? y * 100 : y}));
}

/// What a plot has to draw, or nothing.
function datasets(plot) {
    const names = compares ? Object.entries(plot.of).slice(0, 1) : Object.entries(plot.of);
    const sets = [];
    runs.forEach((run, index) => {
        for (const [name, label] of names) {
            const points = points_of(plot, run, name);
            if (points) sets.push({label: compares ? run.name : label, data: points, run: index});
        }
    });
    return sets;
}

function styled(sets, plot, look) {
    return sets.map((set, at) => {
        const color = look.palette[at % look.palette.length];
        return {...set, borderColor: color, backgroundColor: color + "33", borderWidth: 1.6,
                pointRadius: plot.kind || set.data.length < 3 ? 2 : 0, pointHitRadius: 8,
                fill: plot.kind === "histogram" && !compares, stepped: plot.kind === "expiry" ? "middle" : false,
                tension: plot.kind === "histogram" ? 0.25 : 0};
    });
}

/// Whether a value of a logarithmic axis is written beside it: where there are few powers of ten, their
/// doubles and halves are, too.
function is_round(value, ticks) {
    const leading = tick => Math.round(tick / 10 ** Math.floor(Math.log10(tick) + 1e-9));
    const powers = ticks.filter(tick => leading(tick.value) === 1).length;
    return (powers > 2 ? [1] : [1, 2, 5]).includes(leading(value));
}

function axis(title, look, log, format) {
    const options = {
        type: log ? "logarithmic" : "linear",
        title: {display: true, text: title, color: look.faint},
        grid: {color: look.line, borderColor: look.line, tickColor: look.line},
        ticks: {color: look.faint, maxRotation: 0, maxTicksLimit: 9},
    };
    if (log) {
        options.ticks.callback = (value, index, ticks) => is_round(value, ticks) ? format(value) : "";
        options.ticks.autoSkip = false;
    } else {
        options.ticks.callback = value => format(value);
    }
    return options;
}

function chart_options(plot, look) {
    const over_time = !plot.kind;
    const format = plot.format ?? number;
    const y_format = plot.kind ? number : format;
    const x = axis(over_time ? `${clock.name} since the start` : plot.x, look, plot.kind === "histogram",
                   plot.kind === "histogram" ? format : number);
    const y = axis(plot.y, look, plot.log, y_format);
    if (!plot.log) y.beginAtZero = true;
    if (over_time) {
        x.min = 0;
        x.max = Math.ceil(Math.max(...runs.map(run => (run.seconds.at(-1) ?? 0) / clock.size)));
    }
    const x_text = value => over_time || plot.kind === "expiry" ? `${number(value)} ${over_time ? clock.name : "s"}` : time(value);
    return {
        over_time, faint: look.faint, color: look.text,
        animation: false, responsive: true, maintainAspectRatio: false, parsing: false, normalized: true,
        layout: {padding: {top: over_time && runs[0].marks.length ? mark_rows * 13 + 2 : 4}},
        interaction: {mode: "nearest", axis: "x", intersect: false},
        scales: {x, y},
        plugins: {
            legend: {position: "bottom", labels: {color: look.text, boxWidth: 14, boxHeight: 2}},
            tooltip: {callbacks: {
                title: items => items.length ? x_text(items[0].parsed.x) : "",
                label: item => `${item.dataset.label}: ${y_format(item.parsed.y)}`}},
        },
    };
}

const charts = [];

function draw_plots() {
    for (const plot of plots) {
        const sets = datasets(plot);
        if (!sets.length) continue;
        const figure = add(show("plots").querySelector(".grid"), "figure");
        add(figure, "h3", plot.title + (compares ? `: ${Object.values(plot.of)[0]}` : ""));
        const canvas = add(add(figure, "div", undefined, "plot"), "canvas");
        canvas.setAttribute("role", "img");
        canvas.setAttribute("aria-label", `${plot.title}, ${plot.y}`);
        add(figure, "figcaption", plot.note);
        const look = theme(false);
        charts.push({plot, sets, chart: new Chart(canvas, {
            type: "line", data: {datasets: styled(sets, plot, look)}, options: chart_options(plot, look), plugins: [marks]})});
    }
}

function paint_again(printing) {
    const look = theme(printing);
    for (const {plot, sets, chart} of charts) {
        chart.data.datasets = styled(sets, plot, look);
        chart.options = chart_options(plot, look);
        chart.update("none");
    }
}

// -- texts

const words = {passed: "Passed", failed: "Failed", refused: "No verdict", skipped: "Skipped"};

function write_head() {
    const title = compares ? `${runs.length} load tests compared` : `Load test: ${runs[0].name}`;
    document.title = document.getElementById("title").textContent = title;
    const verdicts = document.getElementById("verdicts");
    for (const run of runs) {
        const box = add(verdicts, "div", undefined, `verdict ${run.outcome}`);
        add(box, "strong", compares ? `${run.name}: ${words[run.outcome].toLowerCase()}.` : `${words[run.outcome]}.`);
        box.append(run.verdict + (run.interrupted ? " The run was interrupted." : ""));
    }
    const about = document.getElementById("about");
    const entry = (name, text) => {
        if (!text) return;
        add(about, "dt", name);
        add(about, "dd", text);
    };
    for (const run of runs) entry(compares ? run.name : "Run", run.about);
    const generator = run => [run.machine, run.version && `version ${run.version}`].filter(Boolean).join(", ");
    for (const text of new Set(runs.map(generator))) entry("Generator", text);
    for (const text of new Set(runs.map(run => run.server))) entry("Server", text);
    if (!compares) entry("Command", runs[0].command);
}

function write_figures() {
    if (!data.figures.length) return;
    const list = show("figures").querySelector("dl");
    for (const {label, cells} of data.figures) {
        const tile = add(list, "div");
        add(tile, "dt", label);
        add(tile, "dd", cells[0].text);
    }
}

function write_comparison() {
    const table = show("comparison").querySelector("table");
    const head = add(add(table, "thead"), "tr");
    add(head, "th", "");
    for (const run of runs) add(head, "th", run.name);
    const body = add(table, "tbody");
    for (const {label, cells} of data.figures) {
        const row = add(body, "tr");
        add(row, "td", label);
        for (const {text, difference, tone} of cells) {
            const cell = add(row, "td", text);
            if (!difference) continue;
            cell.append(" ");
            add(cell, "span", difference, `faint ${tone}`);
        }
    }
    for (const {promise, outcomes} of data.compared_checks) {
        const row = add(body, "tr");
        add(row, "td", promise);
        for (const outcome of outcomes) add(row, "td", outcome ?? "–", `word ${outcome ?? "skipped"}`);
    }
}

function write_checks() {
    if (!runs[0].checks.length) return;
    const list = show("checks").querySelector("ul");
    const order = ["failed", "refused", "passed", "skipped"];
    const checks = [...runs[0].checks].sort((a, b) => order.indexOf(a.outcome) - order.indexOf(b.outcome));
    for (const {promise, outcome, detail} of checks) {
        const item = add(list, "li", undefined, outcome);
        add(item, "span", outcome, "word");
        const text = add(item, "span");
        add(text, "div", promise, "promise");
        add(text, "div", detail, "detail");
    }
}

function write_times() {
    if (!runs[0].percentiles.length) return;
    const table = show("times").querySelector("table");
    const head = add(add(table, "thead"), "tr");
    for (const text of ["", "p50", "p99", "p99.9", "max"]) add(head, "th", text);
    add(head, "th", "", "meaning");
    const body = add(table, "tbody");
    for (const {label, meaning, cells} of runs[0].percentiles) {
        const row = add(body, "tr");
        add(row, "td", label);
        for (const cell of cells) add(row, "td", cell);
        add(row, "td", meaning, "faint meaning");
    }
}

function write_hostile_effect() {
    if (!runs[0].hostile_effect.length) return;
    const table = show("hostile").querySelector("table");
    const head = add(add(table, "thead"), "tr");
    for (const text of ["", "before", "with"]) add(head, "th", text);
    const body = add(table, "tbody");
    for (const {label, before, with: among} of runs[0].hostile_effect) {
        const row = add(body, "tr");
        for (const text of [label, before, among]) add(row, "td", text);
    }
}

function write_notes() {
    const lines = runs.flatMap(run => [...run.examples, ...run.notes].map(line => compares ? `${run.name}: ${line}` : line));
    if (lines.length) for (const line of lines) add(show("notes").querySelector("ul"), "li", line);
    if (!compares && runs[0].scenario) show("scenario").querySelector("pre").textContent = runs[0].scenario;
}

write_head();
if (compares) {
    write_comparison();
} else {
    write_figures();
    write_checks();
    write_times();
    write_hostile_effect();
}
draw_plots();
write_notes();
dark.addEventListener("change", () => paint_again(false));
addEventListener("beforeprint", () => paint_again(true));
addEventListener("afterprint", () => paint_again(false));
