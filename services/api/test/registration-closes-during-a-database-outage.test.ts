import { ApiError } from '@carillon/core/api-error';
import { TimeoutError } from '@carillon/core/with-timeout';
import { AddressConflictError } from '@carillon/store/devices';
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
const responds = async (): Promise<void> => undefined;

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

describe('a failed lookup of a device', () => {
  test('is reported and closes registration; a lookup without a result does not', async () => {
    const outageWatch = createOutageWatch(responds);
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
  }, 30_000);
});

/** Checks whether registration is open after a lookup failed with this error. */
function isHealthyAfter(error: Error): boolean {
  const { noteFailure, isHealthy } = createOutageWatch(responds);
  noteFailure(error);
  return isHealthy();
}

describe('registration stays open', () => {
  test.each<[string, Error]>([
    ['a programming error', new TypeError('x is undefined')],
    ['a conflict between registrations of one address', new AddressConflictError()],
    ['a document that is not valid BSON', createServerError(22)],
    ['a document that is too large', createServerError(10_334)],
    ['a key that is too long', createServerError(17_280)],
    ['a duplicate key', createServerError(11_000)],
    ['a document that fails validation', createServerError(121)],
  ])('after %s', (_error, error) => {
    expect(isHealthyAfter(error)).toBe(true);
  });

  test('after a client closed its own connection', () => {
    const { noteUnexpectedError, isHealthy } = createOutageWatch(responds);
    noteUnexpectedError(SOCKET_RESET);
    expect(isHealthy()).toBe(true);
  });
});

describe('registration closes', () => {
  test.each<[string, Error]>([
    ['a broken connection', new MongoNetworkError('cut')],
    ['a broken connection reported as a system error', SOCKET_RESET],
    ['a lookup that timed out', new TimeoutError('late')],
    ['a failed server selection', new MongoServerSelectionError('away', {} as never)],
    ['a primary that steps down', createServerError(189)],
    ['a server that shuts down', createServerError(91)],
    ['a write that no majority acknowledged', createServerError(64)],
    ['a failed authentication at the server', createServerError(18)],
    ['an error that the driver labels as retryable', createServerError(1, ['RetryableWriteError'])],
  ])('after %s', (_error, error) => {
    expect(isHealthyAfter(error)).toBe(false);
  });

  test('after a request without a connection to MongoDB', () => {
    const { noteUnexpectedError, isHealthy } = createOutageWatch(responds);
    noteUnexpectedError(new MongoNetworkError('cut'));
    expect(isHealthy()).toBe(false);
  });
});
