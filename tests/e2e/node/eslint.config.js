// What ESLint looks for: mistakes, not style; Prettier knows the style.
const js = require('@eslint/js');
const globals = require('globals');

module.exports = [
    js.configs.recommended,
    {
        files: ['server/**/*.js'],
        languageOptions: {sourceType: 'module', globals: {...globals.browser, Chart: 'readonly'}},
    },
    {
        files: ['loadgen/**/*.js'],
        languageOptions: {sourceType: 'script', globals: {...globals.browser, Chart: 'readonly'}},
    },
    {files: ['tests/**/*.js'], languageOptions: {sourceType: 'commonjs', globals: globals.node}},
    {
        rules: {
            eqeqeq: ['error', 'always', {null: 'ignore'}],
            'no-unused-vars': ['error', {ignoreRestSiblings: true}],
            'no-var': 'error',
            'prefer-const': 'error',
            'no-implied-eval': 'error',
            'no-eval': 'error',
        },
    },
];
