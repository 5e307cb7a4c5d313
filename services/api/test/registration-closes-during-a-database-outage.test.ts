import { ApiError } from '@carillon/core/api-error';
import { TimeoutError } from '@carillon/core/with-timeout';
import { AddressConflictError } from '@carillon/store/device-registration';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  MongoNetworkError,
  MongoNetworkTimeoutError,
  MongoServerError,
  MongoServerSelectionError,
} from 'mongodb';
import type { TestServer } from '../../../packages/presence/test/start-server.ts';
import { startMongod } from '../../../test/support/mongod-server.ts';
import { openStore, type TestStore } from '../../../test/support/open-store.ts';
import { startTcpProxy, type TcpProxy } from '../../../test/support/tcp-proxy.ts';
import { until } from '../../../test/support/until.ts';
import { DeadlineExceededError } from '../src/http/deadlines.ts';
import { authenticateDevice } from '../src/registration/check-device.ts';
import { createOutageWatch } from '../src/registration/outage-watch.ts';

const createServerError = (code: number, labels?: string[]) =>
  new MongoServerError({ message: 'rejected', code, ...(labels && { errorLabels: labels }) });
/** The driver passes it through unchanged if it writes to a socket that was just reset. */
const SOCKET_RESET = Object.assign(new Error('write ECONNRESET'), {
  code: 'ECONNRESET',
  syscall: 'write',
});
const TOKEN = 'a6345d0278adc55d3474f5';

let mongod: TestServer;
let proxy: TcpProxy;
let store: TestStore;
beforeAll(async () => {
  mongod = await startMongod();
  proxy = await startTcpProxy(mongod.port);
  const uri = `mongodb://127.0.0.1:${proxy.port}/test?directConnection=true`;
  store = await openStore({ uri, appName: 'test', timeoutMs: 2_500 });
});
afterAll(async () => {
  await store?.close();
  await proxy?.stop();
  await mongod?.stop();
});

/** Errors of a request that was slow, or that was too long without a response of MongoDB. */
const TIMEOUTS: [string, Error][] = [
  ['a request that exceeded its deadline', new DeadlineExceededError()],
  ['a statement that exceeded the timeout of the driver', new MongoNetworkTimeoutError('late')],
  ['a statement that exceeded its time limit at the server', createServerError(50)],
];

describe.each(TIMEOUTS)('%s', (_error, error) => {
  test('does not close registration while MongoDB responds', async () => {
    const pings: Promise<void>[] = [];
    const { noteUnexpectedError, isHealthy } = createOutageWatch(() => {
      const ping = store.ping();
      pings.push(ping);
      return ping;
    });
    noteUnexpectedError(error);
    noteUnexpectedError(error);
    expect(await Promise.all(pings)).toHaveLength(1);
    expect(isHealthy()).toBe(true);
  });

  test('closes it while MongoDB does not', async () => {
    const { noteUnexpectedError, isHealthy } = createOutageWatch(store.ping);
    process.kill(mongod.pid, 'SIGSTOP');
    try {
      // The process may respond once more before the signal stops it.
      await until(() => {
        noteUnexpectedError(error);
        return !isHealthy();
      });
    } finally {
      process.kill(mongod.pid, 'SIGCONT');
    }
  });
});

test('a failed lookup of a device is reported and closes registration; a lookup without a result does not', async () => {
  const outageWatch = createOutageWatch(async () => undefined);
  const reported: unknown[] = [];
  const noteFailure = (error: unknown) => {
    reported.push(error);
    outageWatch.noteFailure(error);
  };
  const authenticate = () =>
    authenticateDevice(
      store,
      { authKeys: [], outageWatch: { ...outageWatch, noteFailure } },
      TOKEN,
      'auth',
    ).catch((error: unknown) => error);
  expect(await authenticate()).toMatchObject({ code: 'INVALID_DEVICE_AUTH' });
  expect([reported, outageWatch.isHealthy()]).toEqual([[], true]);
  proxy.cut();
  const error = await authenticate();
  expect(error).not.toBeInstanceOf(ApiError);
  expect(reported).toHaveLength(1);
  expect(reported[0]).toBe(error);
  expect(outageWatch.isHealthy()).toBe(false);
});

type Note = 'noteFailure' | 'noteUnexpectedError';

// After the failure of a lookup, or of a request.
test.each<[isOpen: boolean, error: string, Error, note?: Note]>([
  [true, 'a programming error', new TypeError('x is undefined')],
  [true, 'a conflict between registrations of one address', new AddressConflictError()],
  [true, 'a document that is not valid BSON', createServerError(22)],
  [true, 'a document that is too large', createServerError(10_334)],
  [true, 'a key that is too long', createServerError(17_280)],
  [true, 'a duplicate key', createServerError(11_000)],
  [true, 'a document that fails validation', createServerError(121)],
  [true, 'a client that closed its own connection', SOCKET_RESET, 'noteUnexpectedError'],
  [false, 'a broken connection', new MongoNetworkError('cut')],
  [false, 'a broken connection reported as a system error', SOCKET_RESET],
  [false, 'a lookup that timed out', new TimeoutError('late')],
  [false, 'a failed server selection', new MongoServerSelectionError('away', {} as never)],
  [false, 'a primary that steps down', createServerError(189)],
  [false, 'a server that shuts down', createServerError(91)],
  [false, 'a write that no majority acknowledged', createServerError(64)],
  [false, 'a failed authentication at the server', createServerError(18)],
  [false, 'what the driver labels as retryable', createServerError(1, ['RetryableWriteError'])],
  [false, 'a request without MongoDB', new MongoNetworkError('cut'), 'noteUnexpectedError'],
])('registration is open: %p, after %s', (isOpen, _name, error, note = 'noteFailure') => {
  const watch = createOutageWatch(async () => undefined);
  watch[note](error);
  expect(watch.isHealthy()).toBe(isOpen);
});
