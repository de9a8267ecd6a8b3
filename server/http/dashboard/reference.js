// The reference of the HTTP API, drawn from its OpenAPI document.

import {get} from './api.js';
import {facts, find, link, make, table} from './dom.js';

const METHODS = ['get', 'post', 'put', 'delete'];
const DEEPEST = 6; // levels of a schema that are shown

let document_ = {};

/// The value that a reference leads to.
function resolved(value) {
    while (value?.$ref)
        value = value.$ref
            .replace(/^#\//, '')
            .split('/')
            .reduce((place, step) => place[step], document_);
    return value;
}

const operations = tag =>
    Object.entries(document_.paths).flatMap(([path, methods]) =>
        METHODS.filter(method => methods[method]?.tags?.includes(tag)).map(method => ({
            path,
            method,
            ...methods[method],
        })),
    );

function operation_section({
    path,
    method,
    operationId,
    summary,
    description,
    parameters = [],
    requestBody,
    responses,
    ...more
}) {
    return make(
        'section',
        {class: 'operation', id: operationId},
        make('h3', {}, make('span', {class: `method ${method}`}, method.toUpperCase()), make('code', {}, path)),
        make('p', {}, [summary, description].filter(Boolean).join(' ')),
        facts({Role: more['x-role'] ?? 'none: no token is needed', Id: operationId}),
        parameters.length
            ? table(
                  `Parameters of ${method} ${path}`,
                  {
                      Parameter: ({name, required}) =>
                          make('span', {}, make('code', {}, name), required ? ' (required)' : ''),
                      In: ({in: place}) => place,
                      Type: ({schema}) => type_of(schema),
                      Meaning: ({description: meaning}) => meaning ?? '',
                  },
                  parameters.map(resolved),
              )
            : null,
        requestBody ? body('Request body', resolved(requestBody)) : null,
        make('pre', {}, make('code', {}, curl(method, path, resolved(requestBody)))),
        Object.entries(responses).map(([status, response]) =>
            body(`${status}: ${resolved(response).description}`, resolved(response)),
        ),
    );
}

function body(title, {description, content = {}}) {
    const [[type, {schema, example, examples}] = ['', {}]] = Object.entries(content);
    if (!schema) return make('p', {class: 'hint'}, title);
    const shown = example ?? resolved(Object.values(examples ?? {})[0])?.value;
    return make(
        'details',
        {},
        make('summary', {}, title),
        title.endsWith(description) ? null : make('p', {}, description),
        make('p', {class: 'hint'}, type),
        schema_list(schema, 0),
        shown === undefined ? null : make('pre', {}, make('code', {}, JSON.stringify(shown, null, 2))),
    );
}

function type_of(schema) {
    const {type, format, items, enum: values, oneOf} = resolved(schema) ?? {};
    if (values) return values.map(value => JSON.stringify(value)).join(' or ');
    if (oneOf) return oneOf.map(type_of).join(' or ');
    if (type === 'array') return `array of ${type_of(items)}`;
    return [type, format && `(${format})`].filter(Boolean).join(' ');
}

function schema_list(schema, depth) {
    const {properties, items, oneOf, required = [], description} = resolved(schema);
    if (depth > DEEPEST) return null;
    if (oneOf) return oneOf.map(each => schema_list(each, depth + 1));
    if (items) return schema_list(items, depth);
    if (!properties) return make('p', {}, [type_of(schema), description].filter(Boolean).join(': '));
    return make(
        'ul',
        {class: 'schema'},
        Object.entries(properties).map(([name, member]) => {
            const {properties: inner, items: of, description: meaning} = resolved(member);
            return make(
                'li',
                {},
                make('code', {}, name),
                ` ${type_of(member)}${required.includes(name) ? '' : ', optional'}`,
                meaning ? `. ${meaning}` : '',
                inner || resolved(of)?.properties ? schema_list(member, depth + 1) : null,
            );
        }),
    );
}

function curl(method, path, request) {
    const json = Object.values(request?.content ?? {})[0];
    const example = json && (json.example ?? resolved(Object.values(json.examples ?? {})[0])?.value);
    const lines = [`curl -X ${method.toUpperCase()} -H "Authorization: Bearer $TOKEN"`, `"${location.origin}${path}"`];
    if (example !== undefined) lines.push(`--json '${JSON.stringify(example).replaceAll("'", "'\\''")}'`);
    return lines.join(' \\\n    ');
}

try {
    document_ = await get('openapi.json');
    const groups = document_.tags
        .map(tag => ({...tag, operations: operations(tag.name)}))
        .filter(group => group.operations.length);
    find('about').textContent = document_.info.description;
    find('page').append(
        make(
            'div',
            {class: 'reference'},
            make(
                'aside',
                {'aria-label': 'Operations'},
                groups.map(({name, operations: all}) =>
                    make(
                        'div',
                        {},
                        make('strong', {}, name),
                        make(
                            'ul',
                            {},
                            all.map(({operationId, method, path}) =>
                                make(
                                    'li',
                                    {},
                                    link(
                                        `#${operationId}`,
                                        make('span', {class: `method ${method}`}, method.toUpperCase()),
                                        ` ${path.replace('/api/v1', '')}`,
                                    ),
                                ),
                            ),
                        ),
                    ),
                ),
            ),
            make(
                'div',
                {},
                make('h1', {}, 'API reference'),
                groups
                    .map(({name, description, operations: all}) => [
                        make('h2', {}, name),
                        make('p', {class: 'hint'}, description ?? ''),
                        all.map(operation_section),
                    ])
                    .flat(2),
            ),
        ),
    );
    if (location.hash) find(location.hash.slice(1))?.scrollIntoView();
} catch (error) {
    find('trouble').textContent =
        error.status === 401 ? 'Open the dashboard first, and enter a token there.' : error.message;
    find('trouble').hidden = false;
}
