import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { ONLY_API } from '../support/api/only-api.ts';
import { runCarillon } from '../support/carillon.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack(ONLY_API);
});
afterAll(() => stack?.stop());

/** Reads the finding of doctor about the clients' addresses. */
async function checkAddresses(): Promise<{ ok: boolean; detail: string } | undefined> {
  const { stdout } = await runCarillon(stack.home, ['--json', 'doctor']);
  const findings = JSON.parse(stdout) as { check: string; ok: boolean; detail: string }[];
  return findings.find(({ check }) => check === 'client addresses');
}

function sendThroughProxy(): Promise<Response> {
  const headers = { 'x-forwarded-for': '198.51.100.7' };
  return fetch(`${stack.dev.api}/openapi.json`, { headers });
}

test('requests through a proxy are one line in the log and a finding of the doctor', async () => {
  expect(await checkAddresses()).toMatchObject({ ok: true });
  for (let n = 0; n < 50; n += 1) await (await sendThroughProxy()).text();
  const finding = await until(async () => {
    const current = await checkAddresses();
    return current?.ok === false && current;
  });
  expect(finding.detail).toMatch(/TRUST_PROXY is 0: set TRUST_PROXY to the number of proxies/);
  expect(stack.readLog('api').match(/"proxy":"api-forwarded-header"/g)).toHaveLength(1);
});
