import { Select } from '@mantine/core';
import { useNavigate, useRouterState } from '@tanstack/react-router';
import type { App } from '../api/types.ts';
import { useGet, useList } from '../api/use-get.ts';
import { useCurrentApp } from '../lib/current-app.ts';

/** As many apps as one request gives; the search by Ctrl K finds all. */
const LISTED = 100;

/** Shows the current app and leads to the same page of another one. */
export function AppSwitcher() {
  const current = useCurrentApp();
  const navigate = useNavigate();
  const routeId = useRouterState({ select: ({ matches }) => matches.at(-1)?.fullPath ?? '' });
  const listed = useList<App>('/apps', { limit: LISTED }).data?.items ?? [];
  const isListed = listed.some(({ id }) => id === current);
  const other = useGet<App>(
    `/apps/${current ?? ''}`,
    {},
    {
      enabled: current !== undefined && listed.length > 0 && !isListed,
    },
  );
  const apps = isListed || other.data === undefined ? listed : [...listed, other.data];
  const open = (app: string | null) => {
    if (app === null) return;
    const isAppPage = routeId.startsWith('/apps/$app') && !routeId.includes('$topic');
    // The filters stay behind: a cursor or topic of one app means nothing in another.
    void navigate({ to: isAppPage ? routeId : '/apps/$app/pushes', params: { app } } as never);
  };
  return (
    <Select
      size="xs"
      w={{ base: 150, sm: 200 }}
      aria-label="App"
      placeholder="Choose an app"
      nothingFoundMessage="No app of this name"
      searchable
      allowDeselect={false}
      maxDropdownHeight={320}
      data={apps.map(({ id, name }) => ({ value: id, label: name }))}
      value={apps.some(({ id }) => id === current) ? (current ?? null) : null}
      onChange={open}
    />
  );
}
