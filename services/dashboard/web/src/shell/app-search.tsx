import { Select } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useState } from 'react';
import type { App } from '../api/types.ts';
import { useGet } from '../api/use-get.ts';

const DELAY_MS = 200;
/** As many characters of a name as the server searches by. */
const MIN_CHARACTERS = 2;

interface AppSearchProps {
  /** The apps that are listed before something is typed. */
  apps: readonly Pick<App, 'id' | 'name'>[];
  current: string | undefined;
  onOpen: (app: string) => void;
}

/** Chooses among more apps than a list holds: the server finds them by a part of their name, or by their id. */
export function AppSearch({ apps, current, onOpen }: AppSearchProps) {
  const [text, setText] = useState('');
  const name = apps.find(({ id }) => id === current)?.name;
  // The field shows the name of the chosen app, which is not a search text.
  const wanted = text === name ? '' : text.trim();
  const [typed] = useDebouncedValue(wanted, DELAY_MS);
  const isSearch = wanted.length >= MIN_CHARACTERS;
  const found = useGet('/find', { q: typed }, { enabled: isSearch && typed === wanted });
  const isPending = typed !== wanted || found.isFetching;
  // An answer to what was typed before would be chosen by mistake.
  const items = isPending ? [] : (found.data?.items ?? []);
  const matches = items.filter(({ kind }) => kind === 'app');
  const listed = isSearch ? matches.map(({ id, label }) => ({ id, name: label })) : apps;
  return (
    <Select
      size="xs"
      w={{ base: 150, sm: 200 }}
      aria-label="App"
      placeholder="Find an app"
      searchable
      searchValue={text}
      onSearchChange={setText}
      // Typed text replaces the name of the current app.
      onFocus={({ currentTarget }) => currentTarget.select()}
      onClick={({ currentTarget }) => currentTarget.select()}
      // The server has filtered them.
      filter={({ options }) => options}
      nothingFoundMessage={isPending ? 'Searching …' : 'No app has this name'}
      data={listed.map(({ id, name: label }) => ({ value: id, label }))}
      value={current ?? null}
      onChange={(app) => app !== null && onOpen(app)}
      allowDeselect={false}
    />
  );
}
