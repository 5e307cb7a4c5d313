import type { IncomingHttpHeaders } from 'node:http';

/** Response of a push service, or the reason why there is none. */
export type PushServiceResponse =
  | { status: number; headers: IncomingHttpHeaders; text: string }
  /** `isStale`: the service may just have closed an idle connection, which is no failure of it. */
  | { error: string; isStale: boolean }
  /** The request was never written. */
  | 'withheld';

/** Maximum bytes of a response that are read; error texts are shorter. */
export const MAX_BODY_BYTES = 4_096;
