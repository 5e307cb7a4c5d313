import type { Span, Tracer } from '@carillon/core/tracing';
import type { SendablePush } from '@carillon/store/sendable-push';

/**
 * Maximum spans of replayed pushes a second. A push to a topic may wait in 100,000 inboxes, whose devices reconnect
 * together: its trace gets some of them.
 */
const MAX_SPANS_PER_SECOND = 50;
/** Time in which the spans are counted. */
const WINDOW_MS = 1_000;

/**
 * Creates the function that starts the span of a replayed push, in the push's trace. The function returns undefined if
 * the push is not traced, or if enough spans were started within this second.
 *
 * @param now the monotonic clock
 */
export function createReplaySpans(
  tracer: Tracer,
  now: () => number = () => performance.now(),
): (push: Pick<SendablePush, '_id' | 'trace'>) => Span | undefined {
  let windowStart = Number.NEGATIVE_INFINITY;
  let started = 0;
  return ({ _id, trace }) => {
    if (trace === undefined) return undefined;
    const startedAt = now();
    if (startedAt - windowStart >= WINDOW_MS) {
      windowStart = startedAt;
      started = 0;
    }
    if (started >= MAX_SPANS_PER_SECOND) return undefined;
    started += 1;
    return tracer.continueTrace('replay inbox', trace, startedAt, {
      'carillon.push.id': _id,
      'carillon.channel': 'mqtt',
    });
  };
}
