import { AsyncLocalStorage } from 'node:async_hooks';
import { parseRetryAfterMs } from '@carillon/core/retry-after';
import { type Credential, deleteApp, initializeApp } from 'firebase-admin/app';
import { getMessaging } from 'firebase-admin/messaging';
import { z } from 'zod';
import type { MaySend } from '../../deliver/provider.ts';
import { AccessTokenError, type AccessTokens } from './access-token.ts';
import {
  type HttpPool,
  type HttpResponse,
  type PostRequest,
  ResponseTimeoutError,
  WithheldError,
} from './http-pool.ts';
import { jsonOrText } from './json-or-text.ts';
import type { FcmResponse } from './outcome.ts';
import type { FcmRequest } from './payload.ts';

/** firebase-admin for one project: it validates a message and converts it to the API's format. */
export interface FirebaseMessaging {
  /** Sends one message. Never rejects; settles within the deadlines of the HTTP pool and of an access token. */
  send(request: FcmRequest, maySend: MaySend): Promise<FcmResponse>;
  close(): Promise<void>;
}

/** Origin that the library sends messages to. */
export const FCM_ORIGIN = 'https://fcm.googleapis.com';

/** Request that the library passes to its HTTP client. */
interface HttpRequest {
  url: string;
  headers: Record<string, string>;
  data: { message: { token: string; apns?: object } };
}

/** The parts of a message that go past the library. */
interface MessageExtras {
  apnsPayload: string | undefined;
  patch: FcmRequest['patch'];
  maySend: MaySend;
}

/** Part of a successful response that the library reads. */
interface AcceptedResponse {
  isJson(): true;
  data: object;
}

/** HTTP client of the library. */
interface HttpClient {
  send(request: HttpRequest): Promise<AcceptedResponse>;
}

const acceptedBody = z.object({ name: z.string() });

let appCount = 0;

/** Creates the library's app for a project. @throws Error when the library's internals have changed */
export function openFirebaseMessaging(
  projectId: string,
  tokens: AccessTokens,
  httpPool: HttpPool,
): FirebaseMessaging {
  // Not used; without one the library would search for the machine's default credential.
  const credential: Credential = {
    getAccessToken: async () => ({ access_token: await tokens.get(), expires_in: 0 }),
  };
  appCount += 1;
  const app = initializeApp({ projectId, credential }, `fcm-${appCount}`);
  const messaging = getMessaging(app);
  // The library builds its own request from a message, which can't carry more.
  const extrasStorage = new AsyncLocalStorage<MessageExtras>();
  replaceHttpClient(messaging, {
    async send(request) {
      const extras = extrasStorage.getStore();
      if (extras === undefined)
        throw new Error('firebase-admin sends a request that was not requested');
      return sendOver(httpPool, tokens, request, extras);
    },
  });

  return {
    async send({ message, apnsPayload, patch }, maySend) {
      try {
        await extrasStorage.run({ apnsPayload, patch, maySend }, () => messaging.send(message));
        return { kind: 'accepted' };
      } catch (error) {
        if (error instanceof SendError || error instanceof AccessTokenError) return error.response;
        return {
          kind: 'malformed',
          detail: error instanceof Error ? error.message : String(error),
        };
      }
    },
    close: () => deleteApp(app),
  };
}

/**
 * Replaces the library's HTTP client, for which there is no public API. The library's client sends a message up to five
 * times when a connection is lost or FCM is unavailable. This duplicates messages and takes up to 82 s. It also reads a
 * body of any length, never settles when a connection is lost within a response, and costs twice as much as ours.
 *
 * @throws Error when the library's internals have changed
 */
export function replaceHttpClient(messaging: object, httpClient: HttpClient): void {
  const internals = messaging as {
    messagingRequestHandler?: { httpClient?: { send?: unknown } };
  };
  const handler = internals.messagingRequestHandler;
  if (typeof handler?.httpClient?.send !== 'function') {
    throw new Error(
      'firebase-admin has changed where its HTTP client is: check channels/fcm/firebase-messaging',
    );
  }
  handler.httpClient = httpClient;
}

/** FCM didn't accept a message, or the result is unknown; the library rethrows it unchanged. */
class SendError extends Error {
  readonly response: FcmResponse;

  constructor(response: FcmResponse) {
    super(response.kind);
    this.response = response;
  }
}

async function sendOver(
  httpPool: HttpPool,
  tokens: AccessTokens,
  { url, headers, data }: HttpRequest,
  { apnsPayload, patch, maySend }: MessageExtras,
): Promise<AcceptedResponse> {
  const authorization = `Bearer ${await tokens.get()}`;
  const allHeaders = {
    ...headers,
    authorization,
    'content-type': 'application/json;charset=utf-8',
  };
  const path = url.slice(FCM_ORIGIN.length);
  const response = await postRequest(httpPool, {
    path,
    headers: allHeaders,
    body: serialize(data, apnsPayload, patch),
    maySend,
  });
  const body = jsonOrText(response.text);
  if (response.status === 200 && acceptedBody.safeParse(body).success) {
    return { isJson: () => true, data: body as object };
  }
  const retryAfterMs = parseRetryAfterMs(response.headers['retry-after'], Date.now());
  throw new SendError({
    kind: 'response',
    status: response.status,
    body,
    retryAfterMs: retryAfterMs,
  });
}

/** Serializes the library's request with what goes past the library. */
function serialize(
  data: HttpRequest['data'],
  apnsPayload: string | undefined,
  patch: FcmRequest['patch'],
): string {
  if (patch === undefined && apnsPayload === undefined) return JSON.stringify(data);
  const { token, ...message } = data.message;
  const text =
    apnsPayload === undefined ? JSON.stringify(message) : addApnsPayload(message, apnsPayload);
  const fields = (patch?.(text) ?? text).slice(1, -1);
  const first = `"token":${JSON.stringify(token)}`;
  return `{"message":{${[first, ...(fields === '' ? [] : [fields])].join(',')}}}`;
}

/**
 * Adds the payload of APNs to a message, byte for byte as APNs gets it from us. The library would
 * remove keys as `__proto__` and `constructor` and `critical: 0`, round large numbers, and refuse a sound that is empty or
 * has no name.
 */
function addApnsPayload({ apns = {}, ...message }: { apns?: object }, payload: string): string {
  const append = (to: object, name: string, text: string): string => {
    const fields = JSON.stringify(to).slice(1, -1);
    return `{${fields}${fields === '' ? '' : ','}"${name}":${text}}`;
  };
  return append(message, 'apns', append(apns, 'payload', payload));
}

/** Posts a request. @throws SendError when no complete response came */
async function postRequest(httpPool: HttpPool, request: PostRequest): Promise<HttpResponse> {
  try {
    return await httpPool.post(request);
  } catch (error) {
    if (error instanceof WithheldError) throw new SendError({ kind: 'withheld' });
    const kind = error instanceof ResponseTimeoutError ? 'timeout' : 'no-response';
    throw new SendError({ kind, detail: errorTextOf(error) });
  }
}

function errorTextOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined ? error.message : `${code}: ${error.message}`;
}
