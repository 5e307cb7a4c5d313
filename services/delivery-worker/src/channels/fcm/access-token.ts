import { sign } from 'node:crypto';
import { lookup } from 'node:dns';
import { Agent, request } from 'node:https';
import type { LookupFunction } from 'node:net';
import { getCACertificates } from 'node:tls';
import type { SecretOf } from '@carillon/core/channels';
import { isTokenServerAllowed } from '@carillon/core/channels/fcm';
import { createPublicLookup, NOT_ALLOWED } from '@carillon/core/public-address';
import { parseRetryAfterMs } from '@carillon/core/retry-after';
import { z } from 'zod';
import { jsonOrText } from './json-or-text.ts';
import type { FcmResponse } from './outcome.ts';

type FcmSecret = SecretOf<'fcm'>;

const SCOPE = 'https://www.googleapis.com/auth/firebase.messaging';
const GRANT_TYPE = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
/** Validity of the signed assertion that a token is requested with. */
const ASSERTION_SECONDS = 3_600;
/** Time before its expiry at which a token is renewed, so that none expires in flight. */
const RENEW_BEFORE_MS = 300_000;
/** Period in which refusals discard one token at most: one more that is refused is not the cause. */
const RENEWAL_PERIOD_MS = 60_000;
/** Deadline of a request for a token, in milliseconds. */
const DEADLINE_MS = 10_000;
const MAX_RESPONSE_BYTES = 64 * 1_024;

const tokenResponse = z.object({ access_token: z.string().min(1), expires_in: z.number() });

/** Failure to get an access token, with its cause. */
export class AccessTokenError extends Error {
  readonly response: FcmResponse;

  constructor(response: FcmResponse) {
    super(response.kind);
    this.response = response;
  }
}

/** Access tokens of one service account. */
export type AccessTokens = ReturnType<typeof createAccessTokens>;

/**
 * Creates the access tokens of a service account: OAuth 2.0 with a signed assertion (RFC 7523).
 *
 * @param now milliseconds of a clock that is never set back
 */
export function createAccessTokens(secret: FcmSecret, now = () => performance.now()) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ...targetOptions(secret) });
  let token: { text: string; obtainedAt: number; renewAt: number } | undefined;
  let refreshing: Promise<string> | undefined;
  let renewableAt = 0;

  async function refreshToken(): Promise<string> {
    const { access_token: text, expires_in: seconds } = await requestToken(secret, agent);
    const obtainedAt = now();
    token = { text, obtainedAt, renewAt: obtainedAt + seconds * 1_000 - RENEW_BEFORE_MS };
    return text;
  }

  return {
    /** Returns a valid access token. @throws AccessTokenError */
    async get(): Promise<string> {
      if (token !== undefined && now() < token.renewAt) return token.text;
      refreshing ??= refreshToken().finally(() => {
        refreshing = undefined;
      });
      return refreshing;
    },
    /**
     * Discards a refused token, unless it was obtained after that moment (of `now`): it is a new one then. A recipient
     * whose messages are refused whatever the token would have one requested for each.
     *
     * @returns whether another token can be tried
     */
    invalidate(obtainedBefore: number): boolean {
      if (token === undefined || token.obtainedAt > obtainedBefore) return true;
      if (now() < renewableAt) return false;
      renewableAt = now() + RENEWAL_PERIOD_MS;
      token = undefined;
      return true;
    },
    close: (): void => agent.destroy(),
  };
}

async function requestToken(
  secret: FcmSecret,
  agent: Agent,
): Promise<z.infer<typeof tokenResponse>> {
  // A credential that was saved by other means than the command line and the console is checked too.
  if (!isTokenServerAllowed(secret.tokenUri, secret.gateway)) {
    throw new AccessTokenError({ kind: 'bad-credential', detail: `token_uri: ${NOT_ALLOWED}` });
  }
  const form = new URLSearchParams({ grant_type: GRANT_TYPE, assertion: signAssertion(secret) });
  const response = await post(secret.tokenUri, form.toString(), agent);
  const { data } = tokenResponse.safeParse(response.body);
  if (response.status === 200 && data !== undefined) return data;
  throw new AccessTokenError({ kind: 'no-token', ...response });
}

/** Signs by Node's own crypto: one JWT in an hour needs no library such as jose in the worker. */
function signAssertion(secret: FcmSecret): string {
  const { clientEmail, privateKeyId, tokenUri } = secret;
  const now = Math.floor(Date.now() / 1_000);
  const header = { alg: 'RS256', typ: 'JWT', kid: privateKeyId };
  const timestamps = { iat: now, exp: now + ASSERTION_SECONDS };
  const claims = { iss: clientEmail, scope: SCOPE, aud: tokenUri, ...timestamps };
  const signed = [header, claims].map(toBase64Url).join('.');
  try {
    return `${signed}.${sign('RSA-SHA256', Buffer.from(signed), secret.privateKey).toString('base64url')}`;
  } catch (error) {
    throw new AccessTokenError({
      kind: 'bad-credential',
      detail: `the key doesn't sign: ${messageOf(error)}`,
    });
  }
}

interface TokenServerResponse {
  status: number;
  /** Parsed JSON, or text. */
  body: unknown;
  retryAfterMs: number | undefined;
}

/** Posts a form. @throws AccessTokenError when no complete response came in time */
async function post(url: string, form: string, agent: Agent): Promise<TokenServerResponse> {
  const { promise, resolve, reject } = Promise.withResolvers<TokenServerResponse>();
  const failWith = (error: unknown): void =>
    reject(
      new AccessTokenError({ kind: 'no-response', detail: `no access token: ${messageOf(error)}` }),
    );
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  const signal = AbortSignal.timeout(DEADLINE_MS);
  try {
    const tokenRequest = request(
      url,
      { method: 'POST', agent, headers, signal },
      async (response) => {
        try {
          let text = '';
          for await (const chunk of response.setEncoding('utf8')) {
            text += chunk;
            if (text.length > MAX_RESPONSE_BYTES) throw new Error('the response is too long');
          }
          const retryAfterMs = parseRetryAfterMs(response.headers['retry-after'], Date.now());
          resolve({
            status: response.statusCode ?? 0,
            body: jsonOrText(text),
            retryAfterMs: retryAfterMs,
          });
        } catch (error) {
          failWith(error);
        }
      },
    );
    tokenRequest.on('error', failWith);
    tokenRequest.end(form);
  } catch (error) {
    throw new AccessTokenError({
      kind: 'bad-credential',
      detail: `the token URI: ${messageOf(error)}`,
    });
  }
  return promise;
}

/**
 * Returns the options of connections to the token server: public addresses only, or with a gateway, which may be in the
 * operator's network, its authority. The system's are trusted too: the token server may be Google's all the same.
 */
function targetOptions({ gateway }: FcmSecret): { ca?: string[]; lookup?: LookupFunction } {
  if (gateway === undefined) return { lookup: createPublicLookup(lookup as LookupFunction) };
  return gateway.ca === undefined ? {} : { ca: [gateway.ca, ...getCACertificates('default')] };
}

function toBase64Url(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
