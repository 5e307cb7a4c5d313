import { request } from 'node:http';
import { beforeAll, expect, test } from '@jest/globals';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';

let stack: SharedStack;
beforeAll(async () => {
  stack = await useSharedStack();
});

/** Returns the response to a browser whose page's name was pointed at this machine (DNS rebinding). */
function requestWithHost(
  host: string,
  url: URL,
): Promise<{ status: number | undefined; text: string }> {
  return new Promise((resolve, reject) => {
    const headers = { host: `${host}:${url.port}`, origin: `http://${host}:${url.port}` };
    const sent = request(url, { headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      response.once('end', () => resolve({ status: response.statusCode, text }));
    });
    sent.once('error', reject).end();
  });
}

test('every ops port refuses names that are not its own, and responds to probes by address', async () => {
  const served = stack.dev.processes.filter(({ ops }) => ops !== undefined);
  expect(served.length).toBeGreaterThanOrEqual(4);
  for (const { ops = '' } of served) {
    for (const path of ['/livez', '/readyz', '/metrics']) {
      const refused = await requestWithHost('attacker.example', new URL(path, ops));
      expect(refused.status).toBe(421);
      expect(refused.text).not.toContain('carillon_');
      expect((await requestWithHost('10.244.3.17', new URL(path, ops))).status).toBe(200);
      expect((await requestWithHost('localhost', new URL(path, ops))).status).toBe(200);
    }
  }
});
