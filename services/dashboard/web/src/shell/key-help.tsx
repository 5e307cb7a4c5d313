import { Kbd, Table } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useNavigate } from '@tanstack/react-router';
import { useEffect } from 'react';
import { useCurrentApp } from '../lib/current-app.ts';
import { Dialog } from '../parts/dialog.tsx';
import { openSearch } from './search-request.ts';
import { useMay } from './session.ts';

const KEYS: readonly [string, string][] = [
  ['Ctrl K', 'Find a push, device or app'],
  ['/', 'Go to the first filter of the page'],
  ['c', 'Compose a push'],
  ['?', 'Show these keys'],
  ['Esc', 'Close a dialog or menu'],
];

/** Handles the keys of all pages, and lists them by `?`. */
export function KeyHelp() {
  const [isOpen, { open, close }] = useDisclosure();
  const navigate = useNavigate();
  const app = useCurrentApp();
  const maySend = useMay('operator');
  useEffect(() => {
    const handle = (event: KeyboardEvent): void => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        openSearch();
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (event.key === '?') open();
      if (event.key === '/') focusFilter(event);
      if (event.key === 'c' && app !== undefined && maySend) {
        void navigate({ to: '/apps/$app/compose', params: { app } });
      }
    };
    window.addEventListener('keydown', handle);
    return () => window.removeEventListener('keydown', handle);
  }, [app, maySend, navigate, open]);
  return (
    <Dialog opened={isOpen} onClose={close} title="Keys">
      <Table withRowBorders={false}>
        <Table.Tbody>
          {KEYS.map(([key, meaning]) => (
            <Table.Tr key={key}>
              <Table.Td w={90}>
                <Kbd>{key}</Kbd>
              </Table.Td>
              <Table.Td>{meaning}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Dialog>
  );
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  // Within a dialog the keys belong to it.
  return target.closest('input, textarea, select, [contenteditable], [role="dialog"]') !== null;
}

function focusFilter(event: KeyboardEvent): void {
  const filter = document.querySelector<HTMLElement>('search input, search select');
  if (filter === null) return;
  event.preventDefault();
  filter.focus();
}
