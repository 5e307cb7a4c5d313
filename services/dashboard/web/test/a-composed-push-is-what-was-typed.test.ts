import { execFileSync } from 'node:child_process';
import { expect, test } from '@jest/globals';
import {
  type ComposeForm,
  composeBody,
  describeOptions,
  EMPTY_FORM,
  findInput,
} from '../src/lib/compose-body.ts';
import { sendCommand, shellQuote, statusCommand } from '../src/lib/curl.ts';
import { compactJson, indentJson } from '../src/lib/json-text.ts';

const NASTY = `it's "$HOME" \`id\` \\ $(id) \n ünï ; & | > * ?`;

/** Runs a command with a curl that prints its arguments, one a line and each in JSON. */
function argumentsOf(command: string): string[] {
  const curl = `curl() { for one in "$@"; do printf '%s\\0' "$one"; done; }`;
  const output = execFileSync('sh', ['-c', `${curl}\n${command}`], {
    encoding: 'utf8',
    env: { CARILLON_API_KEY: 'key', HOME: '/none' },
  });
  return output.split('\0').slice(0, -1);
}

const NOW = Date.UTC(2026, 0, 1);

function compose(form: Partial<ComposeForm>) {
  return composeBody({ ...EMPTY_FORM, to: 'token', ...form }, NOW);
}

test('large numbers and texts of the payload stay as they were typed', () => {
  const composed = compose({ data: '{ "id": 12345678901234567890, "text": " a  \\" b " }' });
  expect(composed).toEqual({
    ok: true,
    body: '{"to":"token","data":{"id":12345678901234567890,"text":" a  \\" b "}}',
  });
  expect(compactJson('{ "a" : [ 1.0 , 2 ] }')).toBe('{"a":[1.0,2]}');
});

test('several recipients are a list without duplicates', () => {
  const composed = compose({ to: 'one, two\n/topics/news one', data: '{}' });
  expect(composed).toEqual({
    ok: true,
    body: '{"to":["one","two","/topics/news"],"data":{}}',
  });
});

test('options are sent only when they are given', () => {
  const composed = compose({ data: '{}', title: 'T', collapseKey: 'k', timeToLive: '60' });
  expect(JSON.parse(composed.ok ? composed.body : '')).toEqual({
    to: 'token',
    data: {},
    notification: { title: 'T' },
    collapse_key: 'k',
    time_to_live: 60,
  });
});

test('fields of providers stay as they were typed, and empty ones are not sent', () => {
  const apns = '{ "payload": { "n": 12345678901234567890, "aps": { "badge": null } } }';
  const composed = compose({ data: '{}', priority: 'normal', apns, fcm: ' \n', web_push: '{}' });
  const fields = `"priority":"normal","apns":${compactJson(apns)},"web_push":{}`;
  expect(composed).toEqual({ ok: true, body: `{"to":"token","data":{},${fields}}` });
});

test('stored options are shown with fields of providers as JSON', () => {
  const options = { collapse_key: '{}', apns: '{"payload":{"n":1.0,"list":[],"text":"{\\",:"}}' };
  expect(indentJson(describeOptions(options))).toBe(`{
  "collapse_key": "{}",
  "apns": {
    "payload": {
      "n": 1.0,
      "list": [],
      "text": "{\\",:"
    }
  }
}`);
});

test.each([
  ['apns.headers.apns-topic', 'apns'],
  ['web_push', 'web_push'],
  ['notification.title', 'title'],
  ['time_to_live', 'timeToLive'],
  ['tokens', undefined],
])('an error about %s is shown at its input', (parameter, input) => {
  expect(findInput(parameter)).toBe(input);
});

test.each([
  ['to', { to: '' }],
  ['to', { to: 'no token!' }],
  ['data', { data: '[]' }],
  ['data', { data: '{' }],
  ['apns', { apns: '{"headers":' }],
  ['fcm', { fcm: 'null' }],
  ['web_push', { web_push: '[]' }],
  ['collapseKey', { collapseKey: 'x'.repeat(33) }],
  ['timeToLive', { timeToLive: '1.5' }],
  ['schedule', { schedule: '2020-01-01T00:00' }],
] as const)('a wrong field is named: %s of %j', (field, form) => {
  const composed = compose(form);
  expect(composed.ok ? [] : Object.keys(composed.errors)).toEqual([field]);
});

test('a quoted text reaches a program unchanged', () => {
  expect(argumentsOf(`curl ${shellQuote(NASTY)}`)).toEqual([NASTY]);
});

test('the command that sends a push has its body and the key from the environment', () => {
  const body = JSON.stringify({ to: 'token', data: { text: NASTY } });
  expect(argumentsOf(sendCommand('http://push.example:4000', body))).toEqual([
    'http://push.example:4000/push?api_key=key',
    '-H',
    'Content-Type: application/json',
    '-d',
    body,
  ]);
});

test('an address that a user typed runs no command', () => {
  const [url] = argumentsOf(statusCommand('http://x/$(id)"`id`', 'p u/sh'));
  expect(url).toBe('http://x/$(id)"`id`/pushes/p%20u%2Fsh?api_key=key');
});
