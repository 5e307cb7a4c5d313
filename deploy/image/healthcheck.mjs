// Health check of the containers, which have no shell: ends with code 0 if the service says yes.
//
//   node healthcheck.mjs [/livez | /readyz]

import { get } from 'node:http';

const TIMEOUT_MS = 4_000;
const path = process.argv[2] ?? '/livez';
const port = (process.env.OPS_LISTEN ?? '').split(':').at(-1) || '9000';

const request = get(
  { host: '127.0.0.1', port, path, agent: false, timeout: TIMEOUT_MS },
  (response) => {
    process.exitCode = response.statusCode === 200 ? 0 : 1;
    response.pipe(process.stdout);
  },
);
// Node only reports the time-out.
request.on('timeout', () => request.destroy(new Error(`no response in ${TIMEOUT_MS} ms`)));
request.on('error', (error) => {
  process.stderr.write(`${path}: ${error.message}\n`);
  process.exitCode = 1;
});
