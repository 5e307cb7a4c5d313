import type { SecretOf } from '@carillon/core/credentials';
import {
  type NamedPushHost,
  readPushEndpoint,
  readPushHost,
} from '@carillon/core/web-push-endpoint';
import type {
  Address,
  Attempt,
  ProviderChannel,
  ProviderClient,
  ProviderPush,
  Send,
} from '../../deliver/provider.ts';
import { createInFlight } from '../in-flight.ts';
import { encrypt } from './encrypt.ts';
import { BAD_KEYS, isRefusal, NOT_ALLOWED, outcomeOf, TOO_LARGE } from './outcome.ts';
import { describePush, encodePayload, MAX_PLAINTEXT_BYTES, ttlSeconds } from './payload.ts';
import { createPoster, type Poster, type PosterOptions } from './post.ts';
import type { Detours } from './route.ts';
import { createVapid, type Vapid } from './vapid.ts';

/** What the channel may be told. */
export interface WebPushOptions extends Pick<PosterOptions, 'ca' | 'deadlineMs' | 'look'> {
  /** Entries of push services besides the browsers' own (core/web-push-endpoint). These may be in the own network. */
  hosts: readonly string[];
}

const WINDOW = 50;

/** The channel to browsers (RFC 8030, 8291, 8292). A line is the origin of an endpoint. */
export function createWebPush(options: WebPushOptions): ProviderChannel {
  const hosts = options.hosts.map(readPushHost);
  const detours = detoursTo(hosts);
  return {
    window: WINDOW,
    connect(secret) {
      if (secret.kind !== 'web-push') throw new Error(`no credential of Web Push: ${secret.kind}`);
      return connect(secret, hosts, createPoster({ ...options, detours }));
    },
  };
}

interface Connected {
  hosts: readonly NamedPushHost[];
  vapid: Vapid;
  poster: Poster;
}

function connect(
  secret: SecretOf<'web-push'>,
  hosts: readonly NamedPushHost[],
  poster: Poster,
): ProviderClient {
  const connected: Connected = { hosts, vapid: createVapid(secret), poster };
  const inFlight = createInFlight();
  return {
    lineOf: ({ address }) => URL.parse(address)?.origin ?? 'none',
    begin(push) {
      const send = begin(connected, push);
      return (address) => inFlight.track(send(address));
    },
    async close() {
      await inFlight.idle();
      poster.close();
    },
  };
}

function begin(connected: Connected, push: ProviderPush): Send {
  const plaintext = encodePayload(push);
  const headers = {
    'content-type': 'application/octet-stream',
    'content-encoding': 'aes128gcm',
    ...describePush(push),
  };
  if (plaintext.length > MAX_PLAINTEXT_BYTES) return async () => TOO_LARGE;
  return async (address) => {
    // Registration has checked it; the list of hosts may have changed since.
    const endpoint = readPushEndpoint(address.address, connected.hosts);
    if (address.channel !== 'web-push' || endpoint === undefined) return NOT_ALLOWED;
    const body = encryptFor(plaintext, address);
    if (body === undefined) return BAD_KEYS;
    const ttl = ttlSeconds(push, Date.now());
    return post(connected, endpoint, { ...headers, ttl }, body);
  };
}

/** Undefined: the keys are unusable, which registration should have noticed. */
function encryptFor(
  plaintext: Buffer,
  address: Extract<Address, { channel: 'web-push' }>,
): Buffer | undefined {
  try {
    return encrypt(plaintext, address);
  } catch {
    return undefined;
  }
}

/** Posts, and once more with a fresh signature if it may have been the old one that was refused. */
async function post(
  { vapid, poster }: Connected,
  endpoint: URL,
  headers: Record<string, string | number>,
  body: Buffer,
): Promise<Attempt> {
  const authorization = vapid.authorize(endpoint.origin);
  let answer = await poster.post(endpoint, { ...headers, authorization }, body);
  const wasRefused = 'status' in answer && isRefusal(answer.status);
  if (wasRefused && vapid.renew(endpoint.origin, authorization)) {
    const renewed = vapid.authorize(endpoint.origin);
    answer = await poster.post(endpoint, { ...headers, authorization: renewed }, body);
  }
  return outcomeOf(answer, Date.now());
}

/** Where the named hosts are reached: there, wherever that is, or where their entry points to. */
function detoursTo(hosts: readonly NamedPushHost[]): Detours {
  return new Map(
    hosts.map(({ host, at }) => {
      const { hostname, port } = new URL(`https://${at ?? host}`);
      const bare = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
      return [host, { hostname: bare, port: port || '443' }];
    }),
  );
}
