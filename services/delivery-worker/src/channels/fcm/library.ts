import { type Credential, deleteApp, initializeApp } from 'firebase-admin/app';
import { getMessaging, type TokenMessage } from 'firebase-admin/messaging';
import { z } from 'zod';
import { retryAfterMs } from '../retry-after.ts';
import { type AccessTokens, NoAccessToken } from './access-token.ts';
import { jsonOrText } from './json-or-text.ts';
import type { Links, Reply } from './links.ts';
import type { FcmAnswer } from './outcome.ts';

/** firebase-admin, as one project's way to FCM: it checks a message and puts it in the words of the API. */
export interface FcmLibrary {
  /** One request. Never rejects; settles within the deadline of the links and that of an access token. */
  send(message: TokenMessage): Promise<FcmAnswer>;
  close(): Promise<void>;
}

/** Where the library sends messages. */
export const FCM_ORIGIN = 'https://fcm.googleapis.com';

/** What the library asks its HTTP client for. */
interface Request {
  url: string;
  headers: Record<string, string>;
  data: object;
}

/** What it looks at in the answer, once it is a message that was taken. */
interface Taken {
  isJson(): true;
  data: object;
}

/** What sends the library's requests. */
interface HttpClient {
  send(request: Request): Promise<Taken>;
}

const taken = z.object({ name: z.string() });

let apps = 0;

/** @throws Error when the library has changed where its HTTP client is */
export function openLibrary(projectId: string, tokens: AccessTokens, links: Links): FcmLibrary {
  // Nobody asks for it any more; without one the library would look for the machine's own.
  const credential: Credential = {
    getAccessToken: async () => ({ access_token: await tokens.get(), expires_in: 0 }),
  };
  apps += 1;
  const app = initializeApp({ projectId, credential }, `fcm-${apps}`);
  const messaging = getMessaging(app);
  replaceHttpClient(messaging, { send: (request) => sendOver(links, tokens, request) });

  return {
    async send(message) {
      try {
        await messaging.send(message);
        return { kind: 'accepted' };
      } catch (error) {
        if (error instanceof NotTaken || error instanceof NoAccessToken) return error.answer;
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
 * The library's own client sends a message up to five times when a link breaks or FCM is unavailable, which doubles
 * messages and takes up to 82 s; it reads a body of any length, never settles when a link breaks in the middle of an
 * answer, and costs twice what ours does. Nothing public replaces it.
 *
 * @throws Error when the library has changed where it is
 */
export function replaceHttpClient(messaging: object, httpClient: HttpClient): void {
  const inner = messaging as {
    messagingRequestHandler?: { httpClient?: { send?: unknown } };
  };
  const handler = inner.messagingRequestHandler;
  if (typeof handler?.httpClient?.send !== 'function') {
    throw new Error(
      'firebase-admin has changed where its HTTP client is: check channels/fcm/library',
    );
  }
  handler.httpClient = httpClient;
}

/** That FCM didn't take a message, or that nobody knows; the library passes it on as it is. */
class NotTaken extends Error {
  readonly answer: FcmAnswer;

  constructor(answer: FcmAnswer) {
    super(answer.kind);
    this.answer = answer;
  }
}

async function sendOver(
  links: Links,
  tokens: AccessTokens,
  { url, headers, data }: Request,
): Promise<Taken> {
  const authorization = `Bearer ${await tokens.get()}`;
  const all = { ...headers, authorization, 'content-type': 'application/json;charset=utf-8' };
  const reply = await post(links, url.slice(FCM_ORIGIN.length), all, JSON.stringify(data));
  const body = jsonOrText(reply.text);
  if (reply.status === 200 && taken.safeParse(body).success) {
    return { isJson: () => true, data: body as object };
  }
  const after = retryAfterMs(reply.headers['retry-after'], Date.now());
  throw new NotTaken({ kind: 'answered', status: reply.status, body, retryAfterMs: after });
}

/** @throws NotTaken when no whole answer came */
async function post(
  links: Links,
  path: string,
  headers: Record<string, string>,
  body: string,
): Promise<Reply> {
  try {
    return await links.post(path, headers, body);
  } catch (error) {
    throw new NotTaken({ kind: 'lost', detail: wordsOf(error) });
  }
}

function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined ? error.message : `${code}: ${error.message}`;
}
