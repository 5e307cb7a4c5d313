import { webPush } from '@carillon/core/channels/web-push';
import { chooseContact } from '@carillon/core/web-push-contact';
import {
  type AllowedPushHost,
  type AllowedPushHosts,
  bareHostname,
  isKnownService,
  parsePushEndpoint,
} from '@carillon/core/web-push-endpoint';
import type {
  Address,
  Attempt,
  MaySend,
  ProviderChannel,
  ProviderClient,
  ProviderPush,
  Send,
} from '../../deliver/provider.ts';
import { createInFlight } from '../in-flight.ts';
import type { HostOverrides } from './connect-target.ts';
import { encrypt } from './encrypt.ts';
import {
  createPushHttpClient,
  type EndpointRequest,
  type PushHttpClient,
  type PushHttpClientOptions,
} from './http-client.ts';
import {
  BAD_KEYS,
  explainBadContact,
  isAuthError,
  NOT_ALLOWED,
  outcomeOfResponse,
  outcomeOfUnknownService,
  TOO_LARGE,
} from './outcome.ts';
import {
  computeTtlSeconds,
  createCacheHeader,
  createHeaders,
  encodePayload,
  MAX_PLAINTEXT_BYTES,
} from './payload.ts';
import { createVapid, type Vapid } from './vapid.ts';

/** Settings of the channel. */
export interface WebPushOptions
  extends Pick<PushHttpClientOptions, 'ca' | 'deadlineMs' | 'dnsLookup' | 'isPublic'> {
  /** Push services besides the browsers' own. Listed ones may be in the operator's network. */
  hosts: AllowedPushHosts;
  /** Contact for apps without one that push services accept. */
  contact?: string | undefined;
}

/** Creates the channel to browsers (RFC 8030, 8291, 8292). An upstream is the origin of an endpoint. */
export function createWebPush(options: WebPushOptions): ProviderChannel {
  const { hosts } = options;
  const hostOverrides = createHostOverrides(hosts.listed);
  return {
    window: webPush.provider.window,
    connect(secret) {
      if (secret.kind !== 'web-push')
        throw new Error(`a secret of ${secret.kind} is not for Web Push`);
      const httpClient = createPushHttpClient({ ...options, hostOverrides });
      const contact = chooseContact(secret.contact, options.contact);
      return connect({
        hosts,
        httpClient,
        // Other push services accept requests with any contact.
        vapid: createVapid(contact === undefined ? secret : { ...secret, contact }),
        badContact: contact === undefined ? secret.contact : undefined,
      });
    },
  };
}

interface ClientContext {
  hosts: AllowedPushHosts;
  vapid: Vapid;
  /** Contact of the signatures, if Apple refuses it. */
  badContact: string | undefined;
  httpClient: PushHttpClient;
}

function connect(context: ClientContext): ProviderClient {
  const inFlight = createInFlight();
  return {
    upstreamKeyOf: ({ address }) => URL.parse(address)?.origin ?? 'none',
    isKnown({ address }) {
      const url = URL.parse(address);
      return url !== null && isKnownService(url, context.hosts);
    },
    prepare(push, maySend) {
      const send = createSend(context, push, maySend);
      return (address) => inFlight.track(send(address));
    },
    async close() {
      await inFlight.idle();
      context.httpClient.close();
    },
  };
}

function createSend(context: ClientContext, push: ProviderPush, maySend: MaySend): Send {
  const plaintext = encodePayload(push);
  const headers = {
    'content-type': 'application/octet-stream',
    'content-encoding': 'aes128gcm',
    ...createHeaders(push),
  };
  if (plaintext.length > MAX_PLAINTEXT_BYTES) return async () => TOO_LARGE;
  return async (address) => {
    // It was checked at registration, but the list of hosts may have changed since.
    const endpoint = parsePushEndpoint(address.address, context.hosts);
    if (address.channel !== 'web-push' || endpoint === undefined) return NOT_ALLOWED;
    const body = tryEncrypt(plaintext, address);
    if (body === undefined) return BAD_KEYS;
    const ttl = computeTtlSeconds(push, Date.now());
    const allHeaders = { ...headers, ttl, ...createCacheHeader(endpoint.hostname, ttl) };
    const isKnown = isKnownService(endpoint, context.hosts);
    return postSigned(context, { endpoint, isKnown, headers: allHeaders, body, maySend });
  };
}

/** Encrypts for a browser; undefined when its keys are unusable, which registration should have rejected. */
function tryEncrypt(
  plaintext: Buffer,
  address: Extract<Address, { channel: 'web-push' }>,
): Buffer | undefined {
  try {
    return encrypt(plaintext, address);
  } catch {
    return undefined;
  }
}

/** Posts, and once more with a new signature if the old one may be why the request was refused. */
async function postSigned(
  { vapid, badContact, httpClient }: ClientContext,
  request: EndpointRequest,
): Promise<Attempt> {
  const { endpoint, isKnown, headers } = request;
  const authorization = vapid.authorize(endpoint.origin);
  let response = await httpClient.post({ ...request, headers: { ...headers, authorization } });
  const isCredentialRejected =
    response !== 'withheld' && 'status' in response && isAuthError(response.status);
  if (isCredentialRejected && vapid.renew(endpoint.origin, authorization)) {
    const newAuthorization = vapid.authorize(endpoint.origin);
    response = await httpClient.post({
      ...request,
      headers: { ...headers, authorization: newAuthorization },
    });
  }
  const now = Date.now();
  if (!isKnown) return outcomeOfUnknownService(response, now);
  const attempt = outcomeOfResponse(response, now);
  return badContact === undefined ? attempt : explainBadContact(attempt, badContact);
}

/** Creates the addresses of configured hosts: their own, without a check that it is public, or their entry's target. */
function createHostOverrides(hosts: readonly AllowedPushHost[]): HostOverrides {
  return new Map(
    hosts.map(({ host, connectTo: target }) => {
      const url = new URL(`https://${target ?? host}`);
      return [host, { hostname: bareHostname(url), port: url.port || '443' }];
    }),
  );
}
