import { execFileSync } from 'node:child_process';
import { expect, test } from '@jest/globals';
import { sendCommand, shellQuote, statusCommand } from '../src/lib/curl.ts';

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
