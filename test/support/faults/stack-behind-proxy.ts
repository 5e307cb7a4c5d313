import { ONLY_API } from '../api/only-api.ts';
import { startStackWithoutLimits } from '../guarantees/start-unlimited.ts';
import type { StackOptions } from '../stack/env.ts';
import { type Stack, startStack } from '../stack.ts';
import { startTcpProxy, type TcpProxy } from '../tcp-proxy.ts';

/** A stack and the proxy between it and its MongoDB. */
export interface StackBehindProxy {
  stack: Stack;
  proxy: TcpProxy;
  /** The process of MongoDB, which another stack runs. */
  mongodbPid(): number;
  stop(): Promise<void>;
}

/** Starts a stack without limits of requests that reaches its MongoDB through a proxy. */
export async function startStackBehindProxy(options: StackOptions = {}): Promise<StackBehindProxy> {
  const database = await startStack({ ...ONLY_API, apis: 0, ownMongodb: true });
  const uri = new URL(database.dev.mongodb);
  const proxy = await startTcpProxy(Number(uri.port));
  const stop = async () => {
    await proxy.stop();
    await database.stop();
  };
  uri.port = String(proxy.port);
  try {
    const env = { ...options.env, MONGODB_URI: uri.href };
    const stack = await startStackWithoutLimits({ ...options, env });
    const mongodbPid = () => database.pidOf('mongodb');
    const stopAll = () => stack.stop().finally(stop);
    return { stack, proxy, mongodbPid, stop: stopAll };
  } catch (error) {
    await stop();
    throw error;
  }
}
