import { z } from 'zod';
import type { Verdict } from './verdict.ts';

const LONGEST_DELAY_MS = 600_000;

/** How a request is met: answered, or not. */
const ACTS = [
  'answer',
  /** The stream (over HTTP/1.1 the connection) is reset. */
  'reset',
  /** The connection is cut. */
  'drop',
  /** Nothing is ever answered. */
  'hang',
  /** GOAWAY (over HTTP/1.1 `Connection: close`), then the answer. */
  'goaway',
  /** REFUSED_STREAM: surely not processed (RFC 9113, 8.7). */
  'refuse-stream',
  /** A body without an end, as fast as the client takes it. */
  'flood',
  /** A body without an end, a byte each 100 ms. */
  'drip',
  'redirect',
] as const;
export type Act = (typeof ACTS)[number];

/** The end of a request, before it is carried out. */
export interface Ending extends Verdict {
  act: Act;
  delayMs: number;
}

/** One scripted answer; what it leaves out is as usual. */
export const stepSchema = z.strictObject({
  /** A name of the provider's own answers. */
  as: z.union([z.string(), z.int().transform(String)]).optional(),
  /** For Unregistered and ExpiredToken: since when, Unix milliseconds. */
  timestampMs: z.int().min(0).optional(),
  status: z.int().min(200).max(599).optional(),
  /** A text, or a value that is sent as JSON. */
  body: z.union([z.string(), z.looseObject({})]).optional(),
  headers: z.record(z.string(), z.string()).optional(),
  delayMs: z.int().min(0).max(LONGEST_DELAY_MS).optional(),
  do: z.enum(ACTS).default('answer'),
});
export type Step = z.infer<typeof stepSchema>;

/** A provider's answer by its name; undefined: it has no such answer. */
export type Named = (name: string, timestampMs: number | undefined) => Verdict | undefined;

const REDIRECT_STATUS = 307;
const REDIRECTED_TO = '/elsewhere';

/**
 * How a request ends by a step.
 *
 * @param usual what it would be answered without a script; asked for only when the step doesn't say
 */
export function endingOf(step: Step, named: Named, usual: () => Verdict): Ending {
  const base = baseOf(step, named, usual);
  const body = typeof step.body === 'object' ? JSON.stringify(step.body) : step.body;
  return {
    status: step.status ?? base.status,
    headers: { ...base.headers, ...step.headers },
    body: body ?? base.body,
    act: step.do,
    delayMs: step.delayMs ?? 0,
  };
}

function baseOf(step: Step, named: Named, usual: () => Verdict): Verdict {
  if (step.as !== undefined) return named(step.as, step.timestampMs) ?? usual();
  if (step.do === 'redirect') {
    return { status: REDIRECT_STATUS, headers: { location: REDIRECTED_TO }, body: '' };
  }
  if (step.status !== undefined) return { status: step.status, headers: {}, body: '' };
  if (step.do === 'flood' || step.do === 'drip') return { status: 200, headers: {}, body: '' };
  return usual();
}

/** What the client gets to see as a status: nothing when the request is cut off. */
export function statusOf({ act, status }: Ending): number | null {
  return act === 'reset' || act === 'drop' || act === 'hang' || act === 'refuse-stream'
    ? null
    : status;
}
