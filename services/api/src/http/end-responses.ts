import type { ServerResponse } from 'node:http';

/** A waiting response is delayed by the handling of at most so many others, some milliseconds. */
const MAX_WAITING = 32;

let waiting: { response: ServerResponse; text: string }[] = [];

/**
 * Ends a response, whose head is complete, at the end of this turn of the event loop, together with the others of the
 * turn, as Redis writes its replies: each write between two requests wakes the process that reads it (a proxy on the same
 * machine), which costs more than handling a request, but writes that follow one another wake it once.
 */
export function endAtEndOfTurn(response: ServerResponse, text: string): void {
  waiting.push({ response, text });
  if (waiting.length === 1) setImmediate(endWaitingResponses);
  else if (waiting.length >= MAX_WAITING) endWaitingResponses();
}

/** Ends the waiting responses now: before an event of a connection that would cut them. */
export function endWaitingResponses(): void {
  const responses = waiting;
  waiting = [];
  for (const { response, text } of responses) response.end(text);
}
