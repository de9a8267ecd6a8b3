// Charts of the last hour, by Chart.js. A gateway that was built without it shows numbers only.

import {make} from './dom.js';

export const has_charts = () => 'Chart' in globalThis;

const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/// {element, show(samples)}. `lines`: {label: sample => number}; `shown` writes a number of the axis.
export function chart(title, lines, shown = value => value.toLocaleString()) {
    const canvas = make('canvas', {role: 'img', 'aria-label': `${title} in the last hour`});
    const element = make('figure', {class: 'chart'}, make('figcaption', {}, title), make('div', {}, canvas));
    let drawn = null;
    const show = samples => {
        drawn ??= draw(canvas, Object.keys(lines), shown);
        Object.values(lines).forEach((value, line) => {
            drawn.data.datasets[line].data = samples.map(sample => ({
                x: new Date(sample.time).getTime(),
                y: value(sample),
            }));
        });
        const last = samples.at(-1);
        if (last)
            canvas.setAttribute(
                'aria-label',
                `${title}, now: ${Object.entries(lines)
                    .map(([label, value]) => `${label} ${shown(value(last))}`)
                    .join(', ')}`,
            );
        drawn.update('none');
    };
    return {element, show, end: () => drawn?.destroy()};
}

function draw(canvas, labels, shown) {
    const colors = [color('--accent'), color('--online'), color('--notice')];
    const faint = color('--faint'),
        line = color('--line');
    return new Chart(canvas, {
        type: 'line',
        data: {
            datasets: labels.map((label, at) => ({
                label,
                data: [],
                borderColor: colors[at],
                backgroundColor: colors[at],
                borderWidth: 1.5,
                pointRadius: 0,
            })),
        },
        options: {
            animation: false,
            maintainAspectRatio: false,
            normalized: true,
            parsing: false,
            interaction: {mode: 'index', intersect: false},
            plugins: {
                legend: {display: labels.length > 1, labels: {color: faint, boxWidth: 10, boxHeight: 2}},
                tooltip: {
                    callbacks: {
                        title: ([item]) => new Date(item.parsed.x).toLocaleTimeString(),
                        label: item => `${item.dataset.label}: ${shown(item.parsed.y)}`,
                    },
                },
            },
            scales: {
                x: {
                    type: 'linear',
                    grid: {display: false},
                    ticks: {
                        color: faint,
                        maxTicksLimit: 4,
                        maxRotation: 0,
                        callback(time) {
                            const is_short = this.max - this.min < 600_000;
                            const digits = {
                                hour: '2-digit',
                                minute: '2-digit',
                                ...(is_short ? {second: '2-digit'} : {}),
                            };
                            return new Date(time).toLocaleTimeString([], digits);
                        },
                    },
                },
                y: {beginAtZero: true, grid: {color: line}, ticks: {color: faint, maxTicksLimit: 5, callback: shown}},
            },
        },
    });
}
