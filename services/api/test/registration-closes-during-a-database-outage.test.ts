import { ApiError } from '@carillon/core/api-error';
import { TimeoutError } from '@carillon/core/with-timeout';
import { AddressConflictError } from '@carillon/store/address-holders';
import { connectStore, type Store } from '@carillon/store/store';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  MongoError,
  MongoNetworkError,
  MongoNetworkTimeoutError,
  MongoServerError,
  MongoServerSelectionError,
} from 'mongodb';
import type { TestServer } from '../../../packages/presence/test/start-server.ts';
import { startMongod } from '../../../test/support/mongod-server.ts';
import { startTcpProxy, type TcpProxy } from '../../../test/support/tcp-proxy.ts';
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
const RESPONDS = () => Promise.resolve();
const HANGS = () => Promise.reject(new MongoNetworkTimeoutError('no response', {}));
const TOKEN = 'a6345d0278adc55d3474f5';

/** Named as the driver's, which exports no class of it. */
const NO_CONNECTION = Object.defineProperty(new MongoError('no connection'), 'name', {
  value: 'MongoWaitQueueTimeoutError',
});
const LATE: [string, Error][] = [
  ['a request that exceeded its deadline', new DeadlineExceededError()],
  ['a time limit of the process', new TimeoutError('late')],
  ['a response that did not arrive', new MongoNetworkTimeoutError('no response', {})],
  ['an operation that exceeded its time limit', createServerError(50)],
  ['a wait for a connection', NO_CONNECTION],
];

describe('a failed lookup of a device', () => {
  let mongod: TestServer;
  let proxy: TcpProxy;
  let store: Store;
  beforeAll(async () => {
    mongod = await startMongod();
    proxy = await startTcpProxy(mongod.port);
    const uri = `mongodb://127.0.0.1:${proxy.port}/test?directConnection=true`;
    store = await connectStore({ uri, appName: 'test', timeoutMs: 2_500 });
  });
  afterAll(async () => {
    await store?.close();
    await proxy?.stop();
    await mongod?.stop();
  });

  test('is reported and closes registration; a lookup without a result does not', async () => {
    const outageWatch = createOutageWatch(RESPONDS);
    const reported: unknown[] = [];
    const noteFailure = (error: unknown) => {
      reported.push(error);
      outageWatch.noteFailure(error);
    };
    const authenticate = () =>
      authenticateDevice(
        store,
        { authKeys: [], outageWatch: { noteFailure } },
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
  const { noteFailure, isHealthy } = createOutageWatch(RESPONDS);
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

  test.each(LATE)('after %s while MongoDB responds', async (_error, error) => {
    const { noteUnexpectedError, isHealthy } = createOutageWatch(RESPONDS);
    for (const path of ['/push', '/register', '/topics/subscribe', '/devices/subscribe'])
      await noteUnexpectedError(error, path);
    expect(isHealthy()).toBe(true);
  });

  test('after a client closed its own connection', async () => {
    const { noteUnexpectedError, isHealthy } = createOutageWatch(HANGS);
    await noteUnexpectedError(SOCKET_RESET, '/push');
    expect(isHealthy()).toBe(true);
  });

  test('while slow requests occupy all connections', async () => {
    const { noteUnexpectedError, isHealthy } = createOutageWatch(() =>
      Promise.reject(NO_CONNECTION),
    );
    await noteUnexpectedError(new DeadlineExceededError(), '/push');
    expect(isHealthy()).toBe(true);
  });
});

describe('registration closes', () => {
  test.each(LATE)('after %s if MongoDB does not respond', async (_error, error) => {
    const { noteUnexpectedError, isHealthy } = createOutageWatch(HANGS);
    await noteUnexpectedError(error, '/push');
    expect(isHealthy()).toBe(false);
  });

  test.each(LATE)(
    'after %s of a check of credentials, for the SDK registers again',
    async (_error, error) => {
      const { noteUnexpectedError, isHealthy } = createOutageWatch(RESPONDS);
      await noteUnexpectedError(error, '/devices/auth');
      expect(isHealthy()).toBe(false);
    },
  );

  test('after another error of an outage, whatever the request', async () => {
    const { noteUnexpectedError, isHealthy } = createOutageWatch(RESPONDS);
    await noteUnexpectedError(new MongoNetworkError('cut'), '/push');
    expect(isHealthy()).toBe(false);
  });

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
});
