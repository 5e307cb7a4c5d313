import { CHANNELS } from '@carillon/core/channels';
import { batchId } from '@carillon/core/ids';
import { MINUTE_MS } from '@carillon/presence/figures';
import type { Queue } from '@carillon/queue/board-queues';
import { QUEUE_NAMES } from '@carillon/queue/jobs';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import {
  type Browser,
  type ConsoleUnderTest,
  createBrowser,
  inviteBrowser,
  setUpOwner,
  startConsole,
} from './console-under-test.ts';

const BOARD = '/queues/board/api';
/** It is in the events of `presence`. */
const TOKEN = 'token-of-a-device-0001';
const PUSH = 'a'.repeat(24);
const APP = 'b'.repeat(24);

interface Rate {
  name: string;
  perSecond: number;
}

let started: ConsoleUnderTest;
let owner: Browser;
let viewer: Browser;
let restricted: Browser;

beforeAll(async () => {
  started = await startConsole({ CONSOLE_ENVIRONMENT: '<b>staging</b>' });
  owner = await setUpOwner(started);
  const account = (await owner.post('/api/accounts', { name: 'one' })).body.id;
  const invite = (name: string, role: string, accounts: string[] | 'all' = 'all') =>
    inviteBrowser(owner, started.url, { name, role, accounts });
  viewer = await invite('Vera', 'viewer');
  restricted = await invite('Rita', 'owner', [account]);
});
afterAll(() => started.stop());

async function connections(): Promise<number> {
  const info = await started.engine.queueConnection.info('clients');
  return Number(/^connected_clients:(\d+)/m.exec(info)?.[1]);
}

async function findQueue(name: string): Promise<Queue> {
  const { queues } = await started.engine.openQueues();
  const queue = queues.find((one) => one.name === name);
  if (queue === undefined) throw new Error(`no queue ${name}`);
  return queue;
}

const audited = async (action: string) =>
  (await owner.get(`/api/audit?action=${action}`)).body.items;

describe('Bull Board', () => {
  test('connects when an operator opens it, and hides its buttons from viewers', async () => {
    await until(async () => (await connections()) > 0);
    const before = await connections();
    const { body } = await viewer.get(`${BOARD}/queues`);
    expect(await connections()).toBe(before + 1);
    expect(body.queues.map(({ name }: { name: string }) => name)).toEqual(QUEUE_NAMES);
    for (const queue of body.queues) expect(queue).toMatchObject({ readOnlyMode: true });
    const [first] = (await owner.get(`${BOARD}/queues`)).body.queues;
    expect(first).toMatchObject({ name: 'send', readOnlyMode: false });
    expect(await connections()).toBe(before + 1);
  });

  test('shows an app and ids of pushes, and no device token', async () => {
    await started.engine.producers.publishPresence([[TOKEN, Date.now()]]);
    await started.engine.producers.send({ app: APP, id: PUSH, recipients: 1 });
    const list = await owner.get(`${BOARD}/queues?activeQueue=presence&status=waiting`);
    const [job] = list.body.queues.find(({ name }: { name: string }) => name === 'presence').jobs;
    expect(job.data).toEqual({ events: '1 entries', keys: '0 entries' });
    const one = await owner.get(`${BOARD}/queues/presence/${job.id}`);
    expect(one.status).toBe(200);
    expect(JSON.stringify([list.body, one.body])).not.toContain(TOKEN);
    const sent = await viewer.get(`${BOARD}/queues/send/send-${PUSH}-0`);
    expect(sent.body.job).toMatchObject({
      data: { app: APP, pushes: [PUSH] },
      name: expect.stringMatching(new RegExp(`, app ${APP}$`)),
      externalUrl: { href: `/pushes/${PUSH}` },
    });
    expect(job).not.toHaveProperty('externalUrl');
    await started.engine.producers.deliver({
      app: APP,
      id: batchId(PUSH, 1),
      channel: 'apns',
      recipients: 1,
    });
    const batches = await viewer.get(`${BOARD}/queues?activeQueue=deliver-apns&status=waiting`);
    const ofApns = batches.body.queues.find(
      ({ name }: { name: string }) => name === 'deliver-apns',
    );
    expect(ofApns.jobs[0].externalUrl).toMatchObject({ href: `/pushes/${PUSH}` });
  });

  test('adds, pauses and empties for no role, and each attempt is in the audit log', async () => {
    const changes: [string, string, unknown?][] = [
      ['POST', '/queues/send/add', { name: 'send', data: { fanOut: PUSH }, options: {} }],
      ['PUT', '/queues/pause'],
      ['PUT', '/queues/send/pause'],
      ['PUT', '/queues/send/empty'],
      ['PUT', '/queues/send/obliterate', { force: true }],
      ['PUT', '/queues/send/clean/wait'],
      ['PUT', `/queues/send/send-${PUSH}-0/clean`],
      ['PATCH', `/queues/send/send-${PUSH}-0/update-data`, { jobData: {} }],
      ['PUT', '/queues/maintenance/job-schedulers/reconcile/remove'],
    ];
    for (const [method, path, body] of changes) {
      const response = await owner.request(method, `${BOARD}${path}`, body);
      expect([path, response.status, response.body.code]).toEqual([path, 403, 'FORBIDDEN']);
    }
    const send = await findQueue('send');
    expect([await send.getWaitingCount(), await send.isPaused()]).toEqual([1, false]);
    const entries = await audited('queue.refused');
    expect(entries).toHaveLength(changes.length);
    expect(entries.at(-1)).toMatchObject({ actor: { name: 'Owner' }, result: 'FORBIDDEN' });
  });

  test('promotes a job for an operator, and not for a viewer', async () => {
    await started.engine.producers.terminate([PUSH]);
    const path = `${BOARD}/queues/finish/end-${PUSH}/promote`;
    expect((await viewer.put(path)).status).toBe(403);
    expect((await owner.put(path)).status).toBe(200);
    expect(await (await findQueue('finish')).getWaitingCount()).toBe(1);
    // It is no longer delayed.
    expect((await owner.put(path)).body.code).toBe('CONFLICT');
    expect(await audited('queue.promote')).toMatchObject([
      { result: 'CONFLICT' },
      { result: 'done', facts: { queueName: 'finish', jobId: `end-${PUSH}` } },
    ]);
  });

  test('changes nothing without the CSRF token, or for another site', async () => {
    const path = `${BOARD}/queues/send/retry/failed`;
    const without = await owner.request('PUT', path, undefined, { 'x-csrf-token': '' });
    const foreign = await owner.request('PUT', path, undefined, { origin: 'http://evil.example' });
    expect([without.status, foreign.status]).toEqual([403, 403]);
    expect((await owner.put(path)).status).toBe(200);
  });
});

describe('the pages of Bull Board', () => {
  test('load nothing from other hosts, and contain the token of the session', async () => {
    const { status, body, headers } = await owner.get('/queues/board/queue/send');
    expect([status, headers.get('cache-control')]).toEqual([200, 'no-store']);
    expect(headers.get('content-security-policy')).toContain("script-src 'self'");
    expect(body).not.toMatch(/https:|googleapis|<%/);
    expect(body).toContain('<base href="/queues/board/"');
    expect(body).toContain('name="csrf-token"');
    expect(body).not.toContain('<b>staging');
    const script = await owner.get(
      `/queues/board/${/src="(static\/js\/main[^"]+)"/.exec(body)?.[1]}`,
    );
    expect(script.headers.get('content-type')).toContain('javascript');
    expect((await owner.get('/queues/board/static/missing.js')).status).toBe(404);
  });

  test('are for operators of the whole installation', async () => {
    for (const browser of [restricted, createBrowser(started.url)]) {
      const { status, headers } = await browser.get('/queues/board/');
      expect([status, headers.get('location')]).toEqual([303, '/queues']);
    }
    expect((await restricted.get(`${BOARD}/queues`)).status).toBe(403);
    expect((await restricted.get('/api/queues')).status).toBe(403);
  });
});

test('the numbers of the queues show which has a worker', async () => {
  const { queues, channels } = (await viewer.get('/api/queues')).body;
  const find = (name: string) => queues.find((one: { name: string }) => one.name === name);
  expect(find('send')).toMatchObject({ waiting: 1, active: 0, delayed: 0, hasWorker: false });
  expect(find('send').oldestWaitingMs).toBeGreaterThanOrEqual(0);
  expect(find('maintenance')).toMatchObject({ waiting: 0, oldestWaitingMs: null });
  expect(find('send')).toMatchObject({ perSecond: 0, drainMs: null });
  // Without a scheduler, at first sight.
  const nothing = { pending: 0, deferred: 0, oldestMs: 0 };
  expect(channels).toEqual(CHANNELS.map((channel) => ({ channel, ...nothing })));
});

test('the rate of a queue counts from the minute in which its jobs began', async () => {
  const minute = Math.floor(Date.now() / MINUTE_MS);
  const { queueConnection } = started.engine;
  await queueConnection.hset(`figures:${minute - 1}`, { accepted: 1 });
  await queueConnection.hset(`figures:${minute}`, { 'taken:send': 600 });
  const send = await until(async () => {
    const { queues } = (await viewer.get('/api/queues')).body;
    return queues.find(({ name, perSecond }: Rate) => name === 'send' && perSecond > 0);
  });
  expect(send.perSecond).toBeGreaterThan(9);
  expect(send.drainMs).toBe(Math.round((send.waiting / send.perSecond) * 1_000));
});
