import { sign } from 'node:crypto';
import { Agent, request } from 'node:https';
import { getCACertificates } from 'node:tls';
import type { SecretOf } from '@carillon/core/credentials';
import { z } from 'zod';
import { retryAfterMs } from '../retry-after.ts';
import { jsonOrText } from './json-or-text.ts';
import type { FcmAnswer } from './outcome.ts';

type FcmSecret = SecretOf<'fcm'>;

const SCOPE = 'https://www.googleapis.com/auth/firebase.messaging';
const GRANT_TYPE = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const ASSERTION_SECONDS = 3_600;
/** A token is replaced this long before its end, so that none ends on its way. */
const EARLY_MS = 300_000;
const DEADLINE_MS = 10_000;
const MAX_ANSWER_BYTES = 64 * 1_024;

const tokenAnswer = z.object({ access_token: z.string().min(1), expires_in: z.number() });

/** That no access token was got, and why. */
export class NoAccessToken extends Error {
  readonly answer: FcmAnswer;

  constructor(answer: FcmAnswer) {
    super(answer.kind);
    this.answer = answer;
  }
}

/** Access tokens of one service account. */
export interface AccessTokens {
  /** @throws NoAccessToken */
  get(): Promise<string>;
  /** Lets go of the token, unless it was got after that moment (`performance.now()`): another has replaced it then. */
  drop(gotBefore: number): void;
  close(): void;
}

/** OAuth 2.0 with a signed assertion (RFC 7523), as Google's service accounts have it. */
export function createAccessTokens(secret: FcmSecret): AccessTokens {
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ...authorities(secret) });
  let token: { text: string; gotAt: number; renewAt: number } | undefined;
  let asking: Promise<string> | undefined;

  async function ask(): Promise<string> {
    const { access_token: text, expires_in: seconds } = await askForToken(secret, agent);
    const gotAt = performance.now();
    token = { text, gotAt, renewAt: gotAt + seconds * 1_000 - EARLY_MS };
    return text;
  }

  return {
    async get() {
      if (token !== undefined && performance.now() < token.renewAt) return token.text;
      asking ??= ask().finally(() => {
        asking = undefined;
      });
      return asking;
    },
    drop(gotBefore) {
      if (token !== undefined && token.gotAt <= gotBefore) token = undefined;
    },
    close: () => agent.destroy(),
  };
}

async function askForToken(secret: FcmSecret, agent: Agent): Promise<z.infer<typeof tokenAnswer>> {
  const form = new URLSearchParams({ grant_type: GRANT_TYPE, assertion: assertionOf(secret) });
  const answer = await post(secret.tokenUri, form.toString(), agent);
  const { data } = tokenAnswer.safeParse(answer.body);
  if (answer.status === 200 && data !== undefined) return data;
  throw new NoAccessToken({ kind: 'no-token', ...answer });
}

function assertionOf(secret: FcmSecret): string {
  const { clientEmail, privateKeyId, tokenUri } = secret;
  const now = Math.floor(Date.now() / 1_000);
  const header = { alg: 'RS256', typ: 'JWT', kid: privateKeyId };
  const times = { iat: now, exp: now + ASSERTION_SECONDS };
  const claims = { iss: clientEmail, scope: SCOPE, aud: tokenUri, ...times };
  const signed = [header, claims].map(toBase64Url).join('.');
  try {
    return `${signed}.${sign('RSA-SHA256', Buffer.from(signed), secret.privateKey).toString('base64url')}`;
  } catch (error) {
    throw new NoAccessToken({ kind: 'unusable', detail: `the key doesn't sign: ${wordOf(error)}` });
  }
}

interface Posted {
  status: number;
  /** JSON if it is, else text. */
  body: unknown;
  retryAfterMs: number | undefined;
}

/** @throws NoAccessToken when no whole answer came in time */
async function post(url: string, form: string, agent: Agent): Promise<Posted> {
  const { promise, resolve, reject } = Promise.withResolvers<Posted>();
  const lose = (error: unknown): void =>
    reject(new NoAccessToken({ kind: 'lost', detail: `no access token: ${wordOf(error)}` }));
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  const signal = AbortSignal.timeout(DEADLINE_MS);
  try {
    const asking = request(url, { method: 'POST', agent, headers, signal }, async (answer) => {
      try {
        let text = '';
        for await (const chunk of answer.setEncoding('utf8')) {
          text += chunk;
          if (text.length > MAX_ANSWER_BYTES) throw new Error('the answer has no end');
        }
        const after = retryAfterMs(answer.headers['retry-after'], Date.now());
        resolve({ status: answer.statusCode ?? 0, body: jsonOrText(text), retryAfterMs: after });
      } catch (error) {
        lose(error);
      }
    });
    asking.on('error', lose);
    asking.end(form);
  } catch (error) {
    throw new NoAccessToken({ kind: 'unusable', detail: `the token URI: ${wordOf(error)}` });
  }
  return promise;
}

/** The token server may be Google's also when messages go through a gateway. */
function authorities({ gateway }: FcmSecret): { ca?: string[] } {
  return gateway?.ca === undefined ? {} : { ca: [gateway.ca, ...getCACertificates('default')] };
}

function toBase64Url(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

function wordOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
