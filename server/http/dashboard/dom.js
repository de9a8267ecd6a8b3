// Builds the elements of the pages. Names and payloads come from clients, so they become text, never markup.

/// An element. `attributes` that are functions are listeners: {click: () => …}. `true` sets an attribute without a
/// value. Attributes that are false, null or undefined are left out.
export function make(tag, attributes = {}, ...content) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (typeof value === 'function') made.addEventListener(name, value);
        else if (value === true) made.setAttribute(name, '');
        else if (value !== false && value != null) made.setAttribute(name, value);
    }
    made.append(...content.flat().filter(part => part != null));
    return made;
}

export function svg(tag, attributes = {}, ...content) {
    const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...content);
    return made;
}

export const find = id => document.getElementById(id);

/// Changes a text only if it is different, so that a screen reader reads only changes.
export function set_text(element, text) {
    if (element.textContent !== String(text)) element.textContent = text;
}

export const link = (href, ...content) => make('a', {href}, ...content);
export const user_link = user => link(`#/user/${encodeURIComponent(user)}`, user);

/// A table. `columns`: {head: row => what the cell shows}; a head that is a number has its digits aligned.
export function table(caption, columns, rows) {
    const heads = Object.keys(columns);
    return make(
        'div',
        {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption},
        make(
            'table',
            {},
            make('caption', {class: 'hidden'}, caption),
            make(
                'thead',
                {},
                make(
                    'tr',
                    {},
                    heads.map(head => make('th', {scope: 'col'}, head)),
                ),
            ),
            make(
                'tbody',
                {},
                rows.map(row =>
                    make(
                        'tr',
                        {},
                        heads.map(head => cell(head, columns[head](row))),
                    ),
                ),
            ),
        ),
    );
}

function cell(head, content) {
    return make(
        'td',
        {'data-head': head, class: typeof content === 'number' ? 'number' : null},
        typeof content === 'number' ? content.toLocaleString() : (content ?? ''),
    );
}

/// A list of names and values. Names without a value are left out.
export function facts(values) {
    return make(
        'dl',
        {class: 'facts'},
        Object.entries(values)
            .filter(([, value]) => value != null && value !== '')
            .map(([name, value]) => make('div', {}, make('dt', {}, name), make('dd', {}, value))),
    );
}

export function button(label, act, attributes = {}) {
    return make('button', {type: 'button', click: act, ...attributes}, label);
}

export function section(title, ...content) {
    return make('section', {}, make('h2', {}, title), ...content);
}

/// A field with its label. `kind`: input, select or textarea.
export function field(label, name, attributes = {}, kind = 'input', ...content) {
    return make('label', {}, make('span', {}, label), make(kind, {name, ...attributes}, ...content));
}

export function choice(label, name, values) {
    return field(label, name, {}, 'select', ...values.map(([value, shown]) => make('option', {value}, shown)));
}

/// A form that calls `act` with the fields that are filled in.
export function form(act, label, ...fields) {
    return make(
        'form',
        {
            class: 'fields',
            submit: event => {
                event.preventDefault();
                const filled = [...new FormData(event.target)].filter(([, value]) => value !== '');
                act(Object.fromEntries(filled), event.target);
            },
        },
        ...fields,
        make('button', {class: 'primary'}, label),
    );
}

/// Shows a note about an action or its failure for some seconds. A screen reader reads it as well.
export function tell(text, is_error = false) {
    const note = make('p', {class: is_error ? 'error' : ''}, text);
    find('notes').append(note);
    setTimeout(() => note.remove(), is_error ? 12_000 : 5_000);
}

/// Asks before an action that cannot be undone. `word`: a word that must be typed first; null: none.
export function confirmed(question, action, word = null) {
    const typed = word && make('input', {'aria-label': `Type ${word} to confirm`, autocomplete: 'off'});
    const yes = make('button', {class: 'danger', value: 'yes', disabled: Boolean(word)}, action);
    typed?.addEventListener('input', () => {
        yes.disabled = typed.value !== word;
    });
    const dialog = make(
        'dialog',
        {},
        make(
            'form',
            {method: 'dialog'},
            make('p', {}, question),
            word ? make('p', {}, `Type ${word} to confirm: `, typed) : null,
            make('div', {class: 'row'}, make('button', {value: 'no', autofocus: !word}, 'Cancel'), yes),
        ),
    );
    document.body.append(dialog);
    dialog.showModal();
    return new Promise(resolve =>
        dialog.addEventListener('close', () => {
            dialog.remove();
            resolve(dialog.returnValue === 'yes');
        }),
    );
}
