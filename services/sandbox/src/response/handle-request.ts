import type { ProviderChannelName } from '@carillon/core/channels';
import { isAccepted } from '../request-log/counters.ts';
import type { LoggedRequest, RequestLog, RequestLogEntry } from '../request-log/request-log.ts';
import type { Exchange } from '../transport/exchange.ts';
import { applyOutcome } from './apply-outcome.ts';
import type { FaultConfig } from './fault-config.ts';
import type { ProviderResponse } from './provider-response.ts';
import {
  clientVisibleStatus,
  type FindCannedResponse,
  type Outcome,
  resolveOutcome,
} from './script-step.ts';
import type { Scripts } from './scripts.ts';

/** A completely received provider request. */
export interface ProviderRequest {
  /** The token that selects a script. */
  token: string;
  /** Fields for the request log. */
  logFields: Omit<LoggedRequest, 'channel' | 'status' | 'detail'>;
  exchange: Exchange;
  /** Validates the request as the provider does; not called when a script gives the response. */
  validate(): ProviderResponse;
  /** Called after the request was accepted. */
  onAccepted?(entry: RequestLogEntry): void;
}

/** Handles a request: decides its outcome, logs it, and applies the outcome. */
export type HandleRequest = (request: ProviderRequest) => void;

/** Options of a channel's request handler. */
export interface RequestHandlerOptions {
  channel: ProviderChannelName;
  scripts: Scripts;
  requestLog: RequestLog;
  faultConfig: Readonly<FaultConfig>;
  findCannedResponse: FindCannedResponse;
}

/** Creates the handler of all requests of a channel. */
export function createRequestHandler({
  channel,
  scripts,
  requestLog,
  faultConfig,
  findCannedResponse,
}: RequestHandlerOptions): HandleRequest {
  let requestCount = 0;

  function decideOutcome({ token, validate }: ProviderRequest): Outcome {
    requestCount += 1;
    const step = scripts.next(channel, token);
    const outcome: Outcome =
      step === undefined
        ? { ...validate(), fault: 'answer', delayMs: 0 }
        : resolveOutcome(step, findCannedResponse, validate);
    if (faultConfig.blackHole) outcome.fault = 'hang';
    else if (isNthRequest(faultConfig.dropEvery)) outcome.fault = 'drop';
    else if (isNthRequest(faultConfig.goawayEvery)) outcome.fault = 'goaway';
    outcome.delayMs += faultConfig.delayMs;
    return outcome;
  }

  function isNthRequest(interval: number | null): boolean {
    return interval !== null && requestCount % interval === 0;
  }

  return (request) => {
    const outcome = decideOutcome(request);
    const status = clientVisibleStatus(outcome);
    const { to, push, headers, payload, environment } = request.logFields;
    const entry = requestLog.append({
      channel,
      to,
      push,
      status,
      detail: outcome.detail,
      headers,
      payload,
      ...(environment !== undefined && { environment }),
    });
    if (isAccepted(status)) request.onAccepted?.(entry);
    applyOutcome(outcome, request.exchange);
  };
}
