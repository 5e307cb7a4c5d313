import '@mantine/core/styles/Popover.css';
import '@mantine/core/styles/Menu.css';
import { ActionIcon, Button, Group, Menu, Text, TextInput } from '@mantine/core';
import { IconX } from '@tabler/icons-react';
import { useLocation, useNavigate } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { addSaved, parseSaved, type SavedFilter } from '../lib/saved-filters.ts';
import { parseSearch } from '../lib/search-text.ts';
import { readStored, writeStored } from '../lib/stored.ts';
import { SavedFiltersButton } from './saved-filters-button.tsx';

/** Shows the menu of saved filters, opened. */
export function SavedFiltersMenu({ page }: { page: string }) {
  const key = `filters:${page}`;
  const [saved, setSaved] = useState(() => parseSaved(readStored(key)));
  const { searchStr, pathname } = useLocation();
  const navigate = useNavigate();
  const store = (list: SavedFilter[]) => {
    setSaved(list);
    writeStored(key, JSON.stringify(list));
  };
  const open = (search: string) => navigate({ to: pathname, search: parseSearch(search) });
  return (
    <Menu position="bottom-end" withinPortal={false} defaultOpened>
      <Menu.Target>
        <SavedFiltersButton />
      </Menu.Target>
      <Menu.Dropdown>
        {saved.map((filter) => (
          <Group key={filter.name} gap={0} wrap="nowrap">
            <Menu.Item onClick={() => open(filter.search)}>{filter.name}</Menu.Item>
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label={`Remove the filter ${filter.name}`}
              onClick={() => store(saved.filter(({ name }) => name !== filter.name))}
            >
              <IconX size={14} />
            </ActionIcon>
          </Group>
        ))}
        {saved.length === 0 && (
          <Text fz="xs" c="dimmed" p="xs">
            Nothing is saved in this browser yet.
          </Text>
        )}
        <Menu.Divider />
        <SaveForm onSave={(name) => store(addSaved(saved, { name, search: searchStr }))} />
      </Menu.Dropdown>
    </Menu>
  );
}

function SaveForm({ onSave }: { onSave: (name: string) => void }) {
  const [name, setName] = useState('');
  const save = (event: FormEvent) => {
    event.preventDefault();
    if (name.trim() === '') return;
    onSave(name.trim());
    setName('');
  };
  return (
    <form onSubmit={save}>
      <Group gap={6} p={6} wrap="nowrap">
        <TextInput
          size="xs"
          aria-label="Name of the filter"
          placeholder="Name of this filter"
          value={name}
          onChange={({ currentTarget }) => setName(currentTarget.value)}
          // The menu would take letters as a search among its items.
          onKeyDown={(event) => event.stopPropagation()}
        />
        <Button size="xs" type="submit">
          Save
        </Button>
      </Group>
    </form>
  );
}
