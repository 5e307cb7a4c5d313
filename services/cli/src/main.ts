import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { run } from './program.ts';

const STOP_EVENTS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'disconnect'];
const manifest: { version: string } = JSON.parse(
  readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
);

const stop = new AbortController();
// The reader of the output has exited (`carillon simulate | head`).
process.stdout.on('error', () => stop.abort());

async function confirm(question: string): Promise<boolean> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(es)?$/i.test((await lines.question(`${question} [y/N] `)).trim());
  } finally {
    lines.close();
  }
}

process.exitCode = await run(process.argv.slice(2), {
  env: process.env,
  nodeVersion: process.versions.node,
  version: manifest.version,
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
  terminal: process.stderr,
  confirm: process.stdin.isTTY && process.stderr.isTTY ? confirm : undefined,
  stopSignal: () => {
    for (const event of STOP_EVENTS) process.once(event, () => stop.abort());
    return stop.signal;
  },
});
// The IPC channel to a parent would keep the process alive.
if (process.connected) process.disconnect();
