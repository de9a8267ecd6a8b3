'use strict';

/* global number, plots, time */

const data = JSON.parse(document.getElementById('data').textContent);
const runs = data.runs;
const compares = runs.length > 1;
const dark = matchMedia('(prefers-color-scheme: dark)');

// Okabe and Ito's colours: people who can't tell red from green can tell these apart.
const light_palette = ['#0072b2', '#d55e00', '#009e73', '#a0568a', '#8a6d00', '#3a8fc4'];
const dark_palette = ['#56b4e9', '#ff9248', '#2fc7a0', '#e39bc6', '#f0e442', '#9ad0f0'];

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

// -- drawing

function theme(printing) {
    const style = getComputedStyle(document.documentElement);
    const is_dark = dark.matches && !printing;
    return {
        palette: is_dark ? dark_palette : light_palette,
        text: printing ? '#1b2430' : style.getPropertyValue('--text').trim(),
        faint: printing ? '#5b6776' : style.getPropertyValue('--faint').trim(),
        line: printing ? '#dde2e8' : style.getPropertyValue('--line').trim(),
    };
}

const mark_rows = 2;

/// Vertical lines at the marks of a run; in a comparison, at the marks of the first run.
const marks = {
    id: 'marks',
    afterDatasetsDraw(chart) {
        if (!chart.options.over_time) return;
        const {
            ctx,
            chartArea: area,
            scales: {x},
        } = chart;
        const scale = clock.size;
        ctx.save();
        ctx.font = '11px system-ui, sans-serif';
        ctx.strokeStyle = ctx.fillStyle = chart.options.faint;
        ctx.setLineDash([4, 3]);
        const free = Array(mark_rows).fill(0); // where the texts of a row end; a mark without room has no text
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
    if (end > 3 * 3600) return {size: 3600, name: 'hours'};
    if (end > 600) return {size: 60, name: 'minutes'};
    return {size: 1, name: 'seconds'};
})();

function points_over_time(run, name, scale) {
    return run.lists[name]?.map((value, at) => ({
        x: run.seconds[at] / clock.size,
        y: value === null ? NaN : scale ? +scale(value).replaceAll(',', '') : value,
    }));
}

function points_of(plot, run, name) {
    if (!plot.kind) return points_over_time(run, name, plot.scale);
    return run.histograms[name]?.map(([x, y]) => ({x, y: plot.kind === 'histogram' ? y * 100 : y}));
}

/// The data that a plot draws; empty if there are none.
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
        return {
            ...set,
            borderColor: color,
            backgroundColor: color + '33',
            borderWidth: 1.6,
            pointRadius: plot.kind || set.data.filter(({y}) => Number.isFinite(y)).length < 3 ? 2 : 0,
            pointHitRadius: 8,
            fill: plot.kind === 'histogram' && !compares,
            stepped: plot.kind === 'expiry' ? 'middle' : false,
            tension: plot.kind === 'histogram' ? 0.25 : 0,
        };
    });
}

/// Whether a logarithmic axis is labelled at this value: at powers of ten and, if there are few of these, also at two
/// and five times a power of ten.
function is_round(value, ticks) {
    const leading = tick => Math.round(tick / 10 ** Math.floor(Math.log10(tick) + 1e-9));
    const powers = ticks.filter(tick => leading(tick.value) === 1).length;
    return (powers > 2 ? [1] : [1, 2, 5]).includes(leading(value));
}

function axis(title, look, log, format) {
    const options = {
        type: log ? 'logarithmic' : 'linear',
        title: {display: true, text: title, color: look.faint},
        grid: {color: look.line, borderColor: look.line, tickColor: look.line},
        ticks: {color: look.faint, maxRotation: 0, maxTicksLimit: 9},
    };
    if (log) {
        options.ticks.callback = (value, index, ticks) => (is_round(value, ticks) ? format(value) : '');
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
    const x = axis(
        over_time ? `${clock.name} since the start` : plot.x,
        look,
        plot.kind === 'histogram',
        plot.kind === 'histogram' ? format : number,
    );
    const y = axis(plot.y, look, plot.log, y_format);
    if (!plot.log) y.beginAtZero = true;
    if (over_time) {
        x.min = 0;
        x.max = Math.ceil(Math.max(...runs.map(run => (run.seconds.at(-1) ?? 0) / clock.size)));
    }
    const x_text = value =>
        over_time || plot.kind === 'expiry' ? `${number(value)} ${over_time ? clock.name : 's'}` : time(value);
    return {
        over_time,
        faint: look.faint,
        color: look.text,
        animation: false,
        responsive: true,
        maintainAspectRatio: false,
        parsing: false,
        normalized: true,
        layout: {padding: {top: over_time && runs[0].marks.length ? mark_rows * 13 + 2 : 4}},
        interaction: {mode: 'nearest', axis: 'x', intersect: false},
        scales: {x, y},
        plugins: {
            legend: {position: 'bottom', labels: {color: look.text, boxWidth: 14, boxHeight: 2}},
            tooltip: {
                callbacks: {
                    title: items => (items.length ? x_text(items[0].parsed.x) : ''),
                    label: item => `${item.dataset.label}: ${y_format(item.parsed.y)}`,
                },
            },
        },
    };
}

const charts = [];

function draw_plots() {
    if (typeof Chart === 'undefined') return; // built without the library
    for (const plot of plots) {
        const sets = datasets(plot);
        if (!sets.length) continue;
        const figure = add(show('plots').querySelector('.grid'), 'figure');
        add(figure, 'h3', plot.title + (compares ? `: ${Object.values(plot.of)[0]}` : ''));
        const canvas = add(add(figure, 'div', undefined, 'plot'), 'canvas');
        canvas.setAttribute('role', 'img');
        canvas.setAttribute('aria-label', `${plot.title}, ${plot.y}`);
        add(figure, 'figcaption', plot.note);
        const look = theme(false);
        charts.push({
            plot,
            sets,
            chart: new Chart(canvas, {
                type: 'line',
                data: {datasets: styled(sets, plot, look)},
                options: chart_options(plot, look),
                plugins: [marks],
            }),
        });
    }
}

function paint_again(printing) {
    const look = theme(printing);
    for (const {plot, sets, chart} of charts) {
        chart.data.datasets = styled(sets, plot, look);
        chart.options = chart_options(plot, look);
        chart.update('none');
    }
}

// -- texts

const words = {passed: 'Passed', failed: 'Failed', refused: 'No verdict', skipped: 'Skipped'};
const check_words = {passed: 'pass', failed: 'fail', refused: 'inconclusive', skipped: 'skipped'};

function write_head() {
    const title = compares ? `${runs.length} load tests compared` : `Load test: ${runs[0].name}`;
    document.title = document.getElementById('title').textContent = title;
    const verdicts = document.getElementById('verdicts');
    for (const run of runs) {
        const box = add(verdicts, 'div', undefined, `verdict ${run.outcome}`);
        add(box, 'strong', compares ? `${run.name}: ${words[run.outcome].toLowerCase()}.` : `${words[run.outcome]}.`);
        box.append(run.verdict + (run.interrupted ? ' The run was interrupted.' : ''));
    }
    const about = document.getElementById('about');
    const entry = (name, text) => {
        if (!text) return;
        add(about, 'dt', name);
        add(about, 'dd', text);
    };
    for (const run of runs) entry(compares ? run.name : 'Run', run.about);
    const generator = run => [run.machine, run.version && `version ${run.version}`].filter(Boolean).join(', ');
    for (const text of new Set(runs.map(generator))) entry('Generator', text);
    for (const text of new Set(runs.map(run => run.server))) entry('Server', text);
    if (!compares) entry('Command', runs[0].command);
}

function write_figures() {
    if (!data.figures.length) return;
    const list = show('figures').querySelector('dl');
    for (const {label, cells} of data.figures) {
        const tile = add(list, 'div');
        add(tile, 'dt', label);
        add(tile, 'dd', cells[0].text);
    }
}

function write_comparison() {
    const table = show('comparison').querySelector('table');
    const head = add(add(table, 'thead'), 'tr');
    add(head, 'th', '');
    for (const run of runs) add(head, 'th', run.name);
    const body = add(table, 'tbody');
    for (const {label, cells} of data.figures) {
        const row = add(body, 'tr');
        add(row, 'td', label);
        for (const {text, difference, tone} of cells) {
            const cell = add(row, 'td', text);
            if (!difference) continue;
            cell.append(' ');
            add(cell, 'span', difference, `faint ${tone}`);
        }
    }
    for (const {promise, outcomes} of data.compared_checks) {
        const row = add(body, 'tr');
        add(row, 'td', promise);
        for (const outcome of outcomes) add(row, 'td', check_words[outcome] ?? '–', `word ${outcome ?? 'skipped'}`);
    }
}

function write_checks() {
    if (!runs[0].checks.length) return;
    const list = show('checks').querySelector('ul');
    const order = ['failed', 'refused', 'passed', 'skipped'];
    const checks = [...runs[0].checks].sort((a, b) => order.indexOf(a.outcome) - order.indexOf(b.outcome));
    for (const {promise, outcome, detail} of checks) {
        const item = add(list, 'li', undefined, outcome);
        add(item, 'span', check_words[outcome], 'word');
        const text = add(item, 'span');
        add(text, 'div', promise, 'promise');
        add(text, 'div', detail, 'detail');
    }
}

function write_times() {
    if (!runs[0].percentiles.length) return;
    const table = show('times').querySelector('table');
    const head = add(add(table, 'thead'), 'tr');
    for (const text of ['', 'p50', 'p99', 'p99.9', 'max']) add(head, 'th', text);
    add(head, 'th', '', 'meaning');
    const body = add(table, 'tbody');
    for (const {label, meaning, cells} of runs[0].percentiles) {
        const row = add(body, 'tr');
        add(row, 'td', label);
        for (const cell of cells) add(row, 'td', cell);
        add(row, 'td', meaning, 'faint meaning');
    }
}

function write_hostile_effect() {
    if (!runs[0].hostile_effect.length) return;
    const table = show('hostile').querySelector('table');
    const head = add(add(table, 'thead'), 'tr');
    for (const text of ['', 'before', 'with']) add(head, 'th', text);
    const body = add(table, 'tbody');
    for (const {label, before, with: among} of runs[0].hostile_effect) {
        const row = add(body, 'tr');
        for (const text of [label, before, among]) add(row, 'td', text);
    }
}

function write_notes() {
    const lines = runs.flatMap(run =>
        [...run.examples, ...run.notes].map(line => (compares ? `${run.name}: ${line}` : line)),
    );
    if (lines.length) for (const line of lines) add(show('notes').querySelector('ul'), 'li', line);
    if (!compares && runs[0].scenario) show('scenario').querySelector('pre').textContent = runs[0].scenario;
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
dark.addEventListener('change', () => paint_again(false));
addEventListener('beforeprint', () => paint_again(true));
addEventListener('afterprint', () => paint_again(false));
