import { failpoint, failpointForEach, setFailpointHandler } from '@carillon/core/failpoint';
import { SettingsError } from '@carillon/core/settings-error';
import { afterEach, expect, test } from '@jest/globals';
import { armFailpoints, parseFailpoints } from '../src/failpoints.ts';

afterEach(() => setFailpointHandler(undefined));

test('each entry names a failpoint, an action, and where it acts', () => {
  expect(parseFailpoints('sent:kill#3, send:block=40000,claim:throw@a b')).toEqual([
    { name: 'sent', action: 'kill', blockMs: 0, occurrence: 3, text: '' },
    { name: 'send', action: 'block', blockMs: 40_000, text: '' },
    { name: 'claim', action: 'throw', blockMs: 0, text: 'a b' },
  ]);
});

test.each(['nowhere:kill', 'send:burn', 'send', 'toString:kill'])('%s is refused', (entry) => {
  expect(() => parseFailpoints(entry)).toThrow(SettingsError);
});

test('production refuses failpoints', () => {
  expect(() => armFailpoints('send:throw', 'production')).toThrow(SettingsError);
  expect(() => failpoint('send')).not.toThrow();
});

test('an armed failpoint acts at its occurrence and text only', () => {
  armFailpoints('send:throw#2@token', 'test');
  failpoint('sent', 'token');
  failpoint('send', 'another');
  failpoint('send', 'token-1');
  expect(() => failpoint('send', 'token-2')).toThrow('failpoint send');
  expect(() => failpoint('send', 'token-3')).not.toThrow();
});

test('tokens are listed only while failpoints are armed', () => {
  const listed: string[] = [];
  const listTokens = () => {
    listed.push('token');
    return listed;
  };
  failpointForEach('rows', listTokens);
  expect(listed).toEqual([]);
  armFailpoints('rows:throw@token', 'test');
  expect(() => failpointForEach('rows', listTokens)).toThrow('failpoint rows');
});

test('a blocked event loop continues after the time', () => {
  armFailpoints('send:block=20', 'test');
  const startedAt = performance.now();
  failpoint('send');
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(19);
});
