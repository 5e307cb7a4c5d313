import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { WORKER_QUEUES } from '../../packages/queue/src/jobs.ts';
import type { LastProgress } from '../../packages/runtime/src/progress.ts';
import { readProgress } from '../support/operators/service-process.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

/** Activities and loops of each service besides its event loop. */
const REPORTED: Record<string, readonly string[]> = {
  api: ['response'],
  'delivery-worker': WORKER_QUEUES.map((queue) => `queue ${queue}`),
  scheduler: ['queue maintenance', 'ticks'],
  'device-gateway': ['presence refresher', 'stream reader', 'lease'],
  dashboard: ['response'],
};

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ dashboards: 1 });
});
afterAll(() => stack?.stop());

function opsOf(service: string): string {
  const { ops } = stack.dev.processes.find((process) => process.service === service) ?? {};
  if (ops === undefined) throw new Error(`the stack has no ${service}`);
  return ops;
}

test.each(Object.keys(REPORTED))('%s reports all that it does, in both probes', async (service) => {
  for (const [path, verdict] of [
    ['/readyz', 'ready'],
    ['/livez', 'alive'],
  ] as const) {
    const response = await fetch(`${opsOf(service)}${path}`);
    const body = (await response.json()) as { faults: string[]; progress: LastProgress[] };
    expect(response.status).toBe(200);
    expect(Object.keys(body)).toEqual([verdict, 'faults', 'progress']);
    expect(body).toMatchObject({ [verdict]: true, faults: [] });
    const names = body.progress.map(({ name }) => name);
    expect(names.toSorted()).toEqual(['event loop', ...(REPORTED[service] ?? [])].toSorted());
    for (const { secondsAgo, state, ...rest } of body.progress) {
      expect(Object.keys(rest)).toEqual(['name']);
      expect(state).toBe('ok');
      if (secondsAgo !== null) expect(secondsAgo).toBeGreaterThanOrEqual(0);
    }
  }
});

test.each([
  ['api', () => stack.dev.api, '/topics'],
  ['dashboard', () => stack.dev.console ?? '', '/api/session'],
])('%s reports a response as soon as it has sent one', async (service, urlOf, path) => {
  await fetch(`${urlOf()}${path}`);
  const hasResponded = async () =>
    (await readProgress(opsOf(service))).some(
      ({ name, secondsAgo }) => name === 'response' && secondsAgo !== null,
    );
  await until(hasResponded, { what: `a response of ${service}` });
});
