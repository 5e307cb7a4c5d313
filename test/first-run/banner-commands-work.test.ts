import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  createTestHome,
  hasFile,
  type NpmStart,
  ROOT,
  readHomeFile,
  type TestHome,
} from '../support/first-run/test-home.ts';
import { measureLag } from '../support/lag.ts';
import type { Dev } from '../support/stack/dev-file.ts';
import { until } from '../support/until.ts';

const execFileAsync = promisify(execFile);
const OWNER_ONLY = 0o600;

/** A start waits 10 s for the device: longer only on a machine that is as busy as this. */
const BUSY_MS = 1_000;
const NOT_CONNECTED = 'is not connected yet';

/** A name that a shell would take apart. */
const NAME = `it's "my" $HOME; #1`;

describe('the banner of a start', () => {
  let testHome: TestHome;
  let start: NpmStart | undefined;
  let dev: Dev;
  let banner: string;
  beforeAll(async () => {
    testHome = await createTestHome({ demo: true }, NAME);
    const lag = measureLag();
    await startOnce();
    if (lag.stop() > BUSY_MS && banner.includes(NOT_CONNECTED)) {
      start?.signal('SIGINT');
      await start?.exit();
      await startOnce();
    }
    expect(banner).not.toContain(NOT_CONNECTED);
  });
  async function startOnce(): Promise<void> {
    const started = testHome.start();
    start = started;
    dev = await started.ready();
    banner = await until(() => started.stdout().includes('Ctrl-C') && started.stdout());
  }
  afterAll(() => testHome?.remove());

  test('names the API, the key and the app that dev.json names', () => {
    for (const fact of [dev.api, dev.apiKey, dev.app]) expect(banner).toContain(fact);
    expect(dev.app).toMatch(/^[0-9a-f]{24}$/);
    expect(dev.apiKey).toMatch(/^[0-9a-zA-Z]{64}$/);
    const { mode } = statSync(`${testHome.home}/dev.json`);
    expect(mode & 0o777).toBe(OWNER_ONLY);
  });

  test('sends, shows the arrival and prints the status, line by line in a shell', async () => {
    const [send, watch, status, ...more] = commandsIn(banner);
    expect(more).toEqual([]);
    const sent = JSON.parse(await runInShell(send));
    expect(sent).toMatchObject({ success: true, info: { devices: 1 } });
    expect(await firstLinesOf(watch, sent.id)).toContain('Hello from Carillon');
    await until(async () => {
      const { push } = JSON.parse(await runInShell(status));
      return push.payload.message === 'Hello from Carillon' && push.pending_devices.length === 0;
    });
  });

  test('leads to a demonstration of this app, from the banner and from the page of the sandbox', async () => {
    const page = await (await fetch(new URL('/', dev.sandbox))).text();
    const link = /href="([^"]*demo[^"]*)"/.exec(page)?.[1] ?? '';
    const { url, status } = await fetch(new URL(link, dev.sandbox));
    expect(status).toBe(200);
    expect(banner).toContain(url);
    expect(new URL(url).searchParams.get('app')).toBe(dev.app);
  });

  test('is in a folder that no other user may read', () => {
    for (const file of ['secrets.json', 'device.json', 'logs/api-0.log']) {
      expect(hasFile(testHome, file)).toBe(true);
    }
    expect(statSync(testHome.home).mode & 0o077).toBe(0);
    expect(readHomeFile(testHome, 'secrets.json')).toContain(dev.apiKey);
  });

  test('is followed by an end with code 0 at Ctrl-C, which leaves no process', async () => {
    start?.signal('SIGINT');
    expect(await start?.exit()).toBe(0);
    await until(() => testHome.processes().length === 0);
    expect(hasFile(testHome, 'dev.json')).toBe(false);
  });
});

/** The lines to copy: each follows a line that begins with #. */
function commandsIn(banner: string): [string, string, string, ...string[]] {
  const lines = banner.split('\n').map((line) => line.trim());
  const commands = lines.filter((_line, at) => lines[at - 1]?.startsWith('# '));
  return commands as [string, string, string, ...string[]];
}

async function runInShell(command: string): Promise<string> {
  return (await execFileAsync('sh', ['-c', command], { cwd: ROOT })).stdout;
}

/** Starts a command that never ends. Returns its output once it contains `wanted`. */
async function firstLinesOf(command: string, expected: string): Promise<string> {
  const child = spawn('sh', ['-c', command], { cwd: ROOT, detached: true });
  const ended = once(child, 'exit');
  let output = '';
  child.stdout.on('data', (text) => {
    output += text;
  });
  try {
    return await until(() => output.includes(expected) && output);
  } finally {
    process.kill(-(child.pid ?? 0));
    await ended;
  }
}
