import { useEffect, useRef, useState } from 'react';
import { useSession } from '../shell/session.ts';
import { listenLive } from './client.ts';
import type { HubMessage } from './hub.ts';
import { type LiveState, type LiveStatus, toLiveStatus, updateLiveState } from './live-status.ts';

/** Listens to the live data while a component is shown, and returns whether they come. */
export function useLive(
  { overview = false, pushes = [] }: { overview?: boolean; pushes?: readonly string[] },
  onMessage: (message: HubMessage) => void,
): LiveStatus | undefined {
  const [state, setState] = useState<LiveState>({});
  const operator = useSession().operator.id;
  // As a text it stays the same while the pushes do.
  const ids = pushes.join(' ');
  const latest = useRef(onMessage);
  useEffect(() => {
    latest.current = onMessage;
  });
  useEffect(() => {
    const subscription = { operator, overview, pushes: ids === '' ? [] : ids.split(' ') };
    return listenLive(subscription, (message) => {
      setState((before) => updateLiveState(before, message, Date.now()));
      if (message.kind !== 'status') latest.current(message);
    });
  }, [operator, overview, ids]);
  return toLiveStatus(state, overview);
}
