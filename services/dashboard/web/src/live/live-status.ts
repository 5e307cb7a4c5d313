import type { HubMessage } from './hub.ts';

/** State of the live data, and since when: the last that came, if they have stopped. */
export interface LiveStatus {
  live: boolean;
  since: number;
  /** True while the stream is open and the server can't read the overview. */
  lacksRedis?: boolean;
}

/** State of a page's live data. */
export interface LiveState {
  /** Undefined until the stream has opened or failed. */
  stream?: LiveStatus;
  /** Set while the server can't read the overview: it says so every 5 seconds, on a stream that is open. */
  overviewStoppedAt?: number;
}

/** Returns the state after a message; the same object if nothing has changed. */
export function updateLiveState(state: LiveState, message: HubMessage, nowMs: number): LiveState {
  switch (message.kind) {
    case 'status':
      return { ...state, stream: { live: message.live, since: message.since } };
    case 'unavailable':
      // The server process has the time of its last reading; none if it began without Redis.
      return {
        ...state,
        overviewStoppedAt: readSince(message.data) ?? state.overviewStoppedAt ?? nowMs,
      };
    case 'overview':
      return state.overviewStoppedAt === undefined ? state : withoutStop(state);
    case 'push':
      return state;
  }
}

function withoutStop({ stream }: LiveState): LiveState {
  return stream === undefined ? {} : { stream };
}

function readSince(data: string): number | undefined {
  const { since } = JSON.parse(data) as { since: number | null };
  return since ?? undefined;
}

/**
 * Returns whether a page's data are live; undefined until it is known.
 *
 * @param showsOverview false for a page whose data do not come with the overview
 */
export function toLiveStatus(state: LiveState, showsOverview: boolean): LiveStatus | undefined {
  const { stream, overviewStoppedAt } = state;
  if (!showsOverview || overviewStoppedAt === undefined) return stream;
  return { live: false, since: overviewStoppedAt, lacksRedis: stream?.live !== false };
}
