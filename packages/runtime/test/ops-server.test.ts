import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createMetrics } from '../src/metrics.ts';
import { startOpsServer } from '../src/ops-server.ts';
import type { LastProgress } from '../src/progress.ts';

const PATHS = ['/livez', '/readyz', '/metrics'];
const PORT = 19_471;
const PROGRESS: LastProgress[] = [{ name: 'reader', secondsAgo: 40.2, state: 'dead' }];

let close: () => Promise<void>;
beforeAll(async () => {
  const health = { readiness: async () => [], liveness: async () => [], progress: () => [] };
  const listen = { host: '127.0.0.1', port: PORT };
  close = await startOpsServer(listen, createMetrics(), health, ['metrics.example.com']);
});
afterAll(() => close());

function requestStatus(path: string, host: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const clientRequest = request(
      { host: '127.0.0.1', port: PORT, path, headers: { host } },
      (response) => {
        response.resume().once('end', () => resolve(response.statusCode));
      },
    );
    clientRequest.once('error', reject).end();
  });
}

describe.each(PATHS)('%s', (path) => {
  test.each([
    'localhost',
    `localhost:${PORT}`,
    'LOCALHOST:1',
    '127.0.0.1:9000',
    '10.4.7.211:9000',
    '[::1]:9000',
    '[fd00::7]',
    'metrics.example.com',
    'Metrics.Example.com.:9000',
  ])('accepts the host %s', async (host) => {
    expect(await requestStatus(path, host)).toBe(200);
  });

  // Host names of web pages that resolve to 127.0.0.1 after the page was loaded (DNS rebinding).
  test.each([
    'attacker.example',
    `attacker.example:${PORT}`,
    'localhost.attacker.example',
    '127.0.0.1.attacker.example',
    'metrics.example.com.attacker.example',
    'localhost@attacker.example',
    '[::1].attacker.example',
  ])('rejects the host %p', async (host) => {
    expect(await requestStatus(path, host)).toBe(421);
  });
});

test.each([
  ['/readyz', { ready: false, faults: ['not started'], progress: PROGRESS }],
  ['/livez', { alive: false, faults: ['stuck'], progress: PROGRESS }],
])('%s names its faults and the last progress with 503', async (path, body) => {
  const health = {
    readiness: async () => ['not started'],
    liveness: async () => ['stuck'],
    progress: () => PROGRESS,
  };
  const closeFaulty = await startOpsServer(
    { host: '127.0.0.1', port: PORT + 1 },
    createMetrics(),
    health,
  );
  try {
    const response = await fetch(`http://127.0.0.1:${PORT + 1}${path}`);
    expect(response.status).toBe(503);
    expect(await response.json()).toEqual(body);
  } finally {
    await closeFaulty();
  }
});
