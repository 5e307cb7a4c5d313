import { useParams } from '@tanstack/react-router';
import { useEffect, useSyncExternalStore } from 'react';
import { readStored, writeStored } from './stored.ts';

const NAME = 'app';
const listeners = new Set<() => void>();
let current = readStored(NAME);

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Returns the app that the navigation shows: that of the page, or the last one. */
export function useCurrentApp(): string | undefined {
  const params = useParams({ strict: false }) as { app?: string };
  const last = useSyncExternalStore(subscribe, () => current);
  useRememberApp(params.app);
  return params.app ?? last;
}

/** Makes an app the current one, as on the page of one of its pushes. */
export function useRememberApp(app: string | undefined): void {
  useEffect(() => {
    if (app === undefined || app === current) return;
    current = app;
    writeStored(NAME, app);
    for (const listener of listeners) listener();
  }, [app]);
}
