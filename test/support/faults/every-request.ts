import { randomUUID } from 'node:crypto';
import {
  type PlainResponse,
  type RequestOptions,
  requestOnce,
} from '../guarantees/request-once.ts';
import type { Credentials } from '../register-device.ts';
import type { Stack } from '../stack.ts';

/** Resources that the requests name; all of them exist. */
export interface RequestTargets {
  device: Credentials;
  /** Several batches' worth of devices. */
  tokens: readonly string[];
  push: string;
  topic: string;
}

/** One response to a request of a kind. */
export interface KindResponse extends PlainResponse {
  kind: string;
}

/** Sends one request of each kind that needs MongoDB, all at once. */
export function requestEverything(
  { dev }: Pick<Stack, 'dev'>,
  { device, tokens, push, topic }: RequestTargets,
): Promise<KindResponse[]> {
  const url = (path: string) => new URL(`${path}?api_key=${dev.apiKey}`, dev.api);
  const get = (path: string): RequestOptions => ({ method: 'GET', url: url(path) });
  const post = (path: string, body: object): RequestOptions => {
    return { method: 'POST', url: url(path), body: JSON.stringify(body) };
  };
  const withoutKey = (path: string, body: object): RequestOptions => {
    return { ...post(path, { ...body, sdk: 10_000 }), url: new URL(path, dev.api) };
  };
  const data = { mark: randomUUID() };
  const requests = {
    'push to one': post('/push', { to: device.token, data }),
    'push to many': post('/push', { to: tokens, data }),
    'push to a topic': post('/push', { to: `/topics/${topic}`, data }),
    'push status': get(`/pushes/${push}`),
    'device info': get(`/devices/${device.token}`),
    presence: post('/devices/presence', { tokens: [device.token] }),
    topics: get('/topics'),
    subscribers: get(`/topics/${topic}`),
    subscribe: post('/topics/subscribe', { token: device.token, topics: [topic] }),
    register: withoutKey('/register', { appId: dev.app, platform: 'electron' }),
    'devices/auth': withoutKey('/devices/auth', device),
  };
  return Promise.all(
    Object.entries(requests).map(async ([kind, request]) => ({
      kind,
      ...(await requestOnce(request)),
    })),
  );
}
