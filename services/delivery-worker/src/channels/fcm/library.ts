import type { Agent } from 'node:https';
import { type Credential, deleteApp, FirebaseAppError, initializeApp } from 'firebase-admin/app';
import { getMessaging, type TokenMessage } from 'firebase-admin/messaging';
import { z } from 'zod';
import { retryAfterMs } from '../retry-after.ts';
import { type AccessTokens, NoAccessToken } from './access-token.ts';
import type { FcmAnswer } from './outcome.ts';

/** firebase-admin, as one project's way to FCM. */
export interface FcmLibrary {
  /** One request. Never rejects; may not settle before the agent ends its link, and not even then. */
  send(message: TokenMessage): Promise<FcmAnswer>;
  close(): Promise<void>;
}

const httpError = z.object({
  httpResponse: z.object({
    status: z.number(),
    headers: z.record(z.string(), z.unknown()).default({}),
    data: z.unknown(),
  }),
});

let apps = 0;

/** @throws Error when the library has changed where its retries are */
export function openLibrary(projectId: string, tokens: AccessTokens, agent: Agent): FcmLibrary {
  // Already expired for the library, so that it asks us each time and doesn't keep a token that was refused.
  const credential: Credential = {
    getAccessToken: async () => ({ access_token: await tokens.get(), expires_in: 0 }),
  };
  apps += 1;
  const app = initializeApp({ projectId, httpAgent: agent, credential }, `fcm-${apps}`);
  const messaging = getMessaging(app);
  turnOffRetries(messaging);

  return {
    async send(message) {
      try {
        await messaging.send(message);
        return { kind: 'accepted' };
      } catch (error) {
        return readError(error);
      }
    },
    close: () => deleteApp(app),
  };
}

/**
 * The library sends a message up to five times when a link breaks or FCM is unavailable, which doubles messages and
 * takes up to 82 s. Nothing public turns that off.
 *
 * @throws Error when the library has changed where they are
 */
export function turnOffRetries(messaging: object): void {
  const inner = messaging as {
    messagingRequestHandler?: { httpClient?: { retry?: { maxRetries?: unknown } | undefined } };
  };
  const client = inner.messagingRequestHandler?.httpClient;
  if (typeof client?.retry?.maxRetries !== 'number') {
    throw new Error('firebase-admin has changed where its retries are: check channels/fcm/library');
  }
  client.retry = undefined;
}

function readError(error: unknown): FcmAnswer {
  if (!(error instanceof Error)) return { kind: 'lost', detail: String(error) };
  if (error.cause instanceof NoAccessToken) return error.cause.answer;
  const { data } = httpError.safeParse(error);
  if (data !== undefined) {
    const { status, headers, data: body } = data.httpResponse;
    const after = retryAfterMs(headers['retry-after'], Date.now());
    return { kind: 'answered', status, body, retryAfterMs: after };
  }
  const isNetwork = error instanceof FirebaseAppError;
  return { kind: isNetwork ? 'lost' : 'malformed', detail: error.message };
}
