import { readFileSync } from 'node:fs';
import { run } from './program.ts';

const STOP_EVENTS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'disconnect'];
const manifest: { version: string } = JSON.parse(
  readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
);

const stop = new AbortController();
// The reader of the output has exited (`carillon simulate | head`).
process.stdout.on('error', () => stop.abort());

process.exitCode = await run(process.argv.slice(2), {
  env: process.env,
  nodeVersion: process.versions.node,
  version: manifest.version,
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
  terminal: process.stderr,
  stopSignal: () => {
    for (const event of STOP_EVENTS) process.once(event, () => stop.abort());
    return stop.signal;
  },
});
// The IPC channel to a parent would keep the process alive.
if (process.connected) process.disconnect();
