import { useEffect, useRef, useState } from 'react';
import { listenLive } from './client.ts';
import type { HubMessage, Wants } from './hub.ts';

/** State of the live data: undefined until it is known. */
export interface LiveStatus {
  live: boolean;
  since: number;
}

/** Listens to the live data while a component is shown, and returns whether they come. */
export function useLive(
  { overview = false, push }: { overview?: boolean; push?: string },
  onMessage: (message: HubMessage) => void,
): LiveStatus | undefined {
  const [status, setStatus] = useState<LiveStatus>();
  const latest = useRef(onMessage);
  useEffect(() => {
    latest.current = onMessage;
  });
  useEffect(() => {
    const wants: Wants = { overview, pushes: push === undefined ? [] : [push] };
    return listenLive(wants, (message) => {
      if (message.kind === 'status') setStatus({ live: message.live, since: message.since });
      else latest.current(message);
    });
  }, [overview, push]);
  return status;
}
