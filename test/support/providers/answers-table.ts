import { readFileSync } from 'node:fs';
import type { ProviderChannelName } from '../../../packages/core/src/channels.ts';

const PROVIDERS: Record<string, ProviderChannelName> = {
  APNs: 'apns',
  FCM: 'fcm',
  'Web Push': 'web-push',
};
const ROW = /^\| (APNs|FCM|Web Push) \| (.*) \| (.*) \| (.*) \|$/gm;
const CODE = /`([^`]+)`/g;
const FCM_ERROR = 'type.googleapis.com/google.firebase.fcm.v1.FcmError';
const RETRY_AFTER = { 'retry-after': '600' };

/** An HTTP response, as the sandbox is told to send it. */
export interface HttpAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** One answer of a provider and its meaning, as docs/use/providers.md has them. */
export interface DocumentedAnswer {
  channel: ProviderChannelName;
  /** As in the table: `403 Forbidden`, `timeout`. */
  answer: string;
  concerns: string;
  /** First word of the last column: an outcome, a reason, `repeated`, `deferred` or `refused`. */
  effect: string;
  /** The response; absent if none comes. */
  http?: HttpAnswer;
}

/** Reads the table of docs/use/providers.md, one entry for each answer. */
export function readAnswersTable(): DocumentedAnswer[] {
  const page = readFileSync(new URL('../../../docs/use/providers.md', import.meta.url), 'utf8');
  return [...page.matchAll(ROW)].flatMap(
    ([, provider = '', answers = '', concerns = '', cell = '']) => {
      const channel = PROVIDERS[provider] ?? 'apns';
      const [effect = ''] = [...cell.matchAll(CODE)].map(([, code = '']) => code);
      return [...answers.matchAll(CODE)].map(([, answer = '']) => {
        const http = toHttpAnswer(channel, answer);
        return { channel, answer, concerns, effect, ...(http && { http }) };
      });
    },
  );
}

function toHttpAnswer(channel: ProviderChannelName, answer: string): HttpAnswer | undefined {
  const [, digits, rest = ''] = /^(\d{3})(?: (.*))?$/.exec(answer) ?? [];
  if (digits === undefined) return undefined;
  const status = Number(digits);
  const headers = rest === 'with Retry-After' ? RETRY_AFTER : {};
  return { status, headers, body: buildBody(channel, status, rest) };
}

function buildBody(channel: ProviderChannelName, status: number, rest: string): string {
  if (rest === '' || rest === 'without a body' || rest === 'with Retry-After')
    return channel === 'fcm' && status === 200 ? '{"name":"projects/p/messages/1"}' : '';
  if (channel === 'apns') return JSON.stringify({ reason: rest });
  if (channel === 'web-push') return rest;
  const [code = '', suffix] = rest.split(', ');
  const details = suffix === undefined ? [{ '@type': FCM_ERROR, errorCode: code }] : [];
  return JSON.stringify({ error: { code: status, status: code, message: 'As told.', details } });
}
