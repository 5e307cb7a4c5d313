import { z } from 'zod';
import type { ProviderResponse } from './provider-response.ts';

const MAX_DELAY_MS = 600_000;

/** Ways to end a request: with a response, or with a fault. */
const FAULTS = [
  'answer',
  /** Resets the stream (over HTTP/1.1 the connection). */
  'reset',
  /** Destroys the connection. */
  'drop',
  /** Never responds. */
  'hang',
  /** Sends GOAWAY (over HTTP/1.1 `Connection: close`), then the response. */
  'goaway',
  /** Resets the stream with REFUSED_STREAM: guaranteed not processed (RFC 9113, 8.7). */
  'refuse-stream',
  /** Sends an endless body as fast as the client reads it. */
  'flood',
  /** Sends an endless body, one byte each 100 ms. */
  'drip',
  'redirect',
] as const;
export type Fault = (typeof FAULTS)[number];

/** The decided outcome of a request, before it is applied. */
export interface Outcome extends ProviderResponse {
  fault: Fault;
  delayMs: number;
}

/** One step of a script; fields that it omits keep their default. */
export const scriptStepSchema = z.strictObject({
  /** Name of a canned response of the provider. */
  as: z.union([z.string(), z.int().transform(String)]).optional(),
  /** For Unregistered and ExpiredToken: the time of the response's timestamp, Unix milliseconds. */
  timestampMs: z.int().min(0).optional(),
  status: z.int().min(200).max(599).optional(),
  /** A text, or an object that is sent as JSON. */
  body: z.union([z.string(), z.looseObject({})]).optional(),
  headers: z.record(z.string(), z.string()).optional(),
  delayMs: z.int().min(0).max(MAX_DELAY_MS).optional(),
  do: z.enum(FAULTS).default('answer'),
});
export type ScriptStep = z.infer<typeof scriptStepSchema>;

/**
 * Finds a canned response by name.
 *
 * @returns undefined if the provider has none of that name
 */
export type FindCannedResponse = (
  name: string,
  timestampMs: number | undefined,
) => ProviderResponse | undefined;

const REDIRECT_STATUS = 307;
const REDIRECT_LOCATION = '/elsewhere';

/**
 * Resolves the outcome of a request from a script step.
 *
 * @param createDefaultResponse makes the response without a script; called only when the step has none
 */
export function resolveOutcome(
  step: ScriptStep,
  findCannedResponse: FindCannedResponse,
  createDefaultResponse: () => ProviderResponse,
): Outcome {
  const response = resolveResponse(step, findCannedResponse, createDefaultResponse);
  const body = typeof step.body === 'object' ? JSON.stringify(step.body) : step.body;
  return {
    status: step.status ?? response.status,
    headers: { ...response.headers, ...step.headers },
    body: body ?? response.body,
    detail: response.detail,
    fault: step.do,
    delayMs: step.delayMs ?? 0,
  };
}

function resolveResponse(
  step: ScriptStep,
  findCannedResponse: FindCannedResponse,
  createDefaultResponse: () => ProviderResponse,
): ProviderResponse {
  if (step.as !== undefined)
    return findCannedResponse(step.as, step.timestampMs) ?? createDefaultResponse();
  if (step.do === 'redirect') {
    return { status: REDIRECT_STATUS, headers: { location: REDIRECT_LOCATION }, body: '' };
  }
  if (step.status !== undefined) return { status: step.status, headers: {}, body: '' };
  if (step.do === 'flood' || step.do === 'drip') return { status: 200, headers: {}, body: '' };
  return createDefaultResponse();
}

/** Returns the status that the client receives; null when it gets no response. */
export function clientVisibleStatus({ fault, status }: Outcome): number | null {
  return fault === 'reset' || fault === 'drop' || fault === 'hang' || fault === 'refuse-stream'
    ? null
    : status;
}
