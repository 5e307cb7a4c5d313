import { NativeSelect } from '@mantine/core';
import { useNavigate, useRouterState } from '@tanstack/react-router';
import { lazy, Suspense } from 'react';
import type { App } from '../api/types.ts';
import { useGet, useList } from '../api/use-get.ts';
import { useCurrentApp } from '../lib/current-app.ts';

/** As many apps as one request gives. With more of them the server searches. */
const LISTED = 100;

const AppSearch = lazy(async () => ({ default: (await import('./app-search.tsx')).AppSearch }));

/** Shows the current app and leads to the same page of another one. */
export function AppSwitcher() {
  const current = useCurrentApp();
  const navigate = useNavigate();
  const routePath = useRouterState({ select: ({ matches }) => matches.at(-1)?.fullPath ?? '' });
  const { apps, hasMore } = useApps(current);
  const isKnown = apps.some(({ id }) => id === current);
  const open = (app: string): void => {
    if (app === '') return;
    const isAppPage = routePath.startsWith('/apps/$app') && !routePath.includes('$topic');
    // The filters stay behind: a cursor or topic of one app means nothing in another.
    void navigate({ to: isAppPage ? routePath : '/apps/$app/pushes', params: { app } } as never);
  };
  const list = (
    <NativeSelect
      size="xs"
      w={{ base: 150, sm: 200 }}
      aria-label="App"
      data={[
        ...(isKnown ? [] : [{ value: '', label: 'Choose an app' }]),
        ...apps.map(({ id, name }) => ({ value: id, label: name })),
      ]}
      value={isKnown ? current : ''}
      onChange={({ currentTarget }) => open(currentTarget.value)}
    />
  );
  if (!hasMore) return list;
  return (
    <Suspense fallback={list}>
      <AppSearch apps={apps} current={current} onOpen={open} />
    </Suspense>
  );
}

/** Lists the first apps, and the current one if it is none of them. */
function useApps(current: string | undefined): { apps: App[]; hasMore: boolean } {
  const page = useList('/apps', { limit: LISTED }).data;
  const list = page?.items;
  const isMissing = list !== undefined && !list.some(({ id }) => id === current);
  const other = useGet(
    `/apps/${current ?? ''}`,
    {},
    { enabled: current !== undefined && isMissing },
  );
  return {
    apps: [...(list ?? []), ...(isMissing && other.data !== undefined ? [other.data] : [])],
    hasMore: page?.next !== undefined,
  };
}
