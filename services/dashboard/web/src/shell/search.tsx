import '@mantine/core/styles/Mark.css';
import '@mantine/core/styles/Overlay.css';
import '@mantine/core/styles/ModalBase.css';
import '@mantine/core/styles/Modal.css';
import '@mantine/core/styles/ScrollArea.css';
import { useDebouncedValue } from '@mantine/hooks';
import { Spotlight, spotlight } from '@mantine/spotlight';
import '@mantine/spotlight/styles.css';
import { IconApps, IconDeviceMobile, IconSearch, IconSend } from '@tabler/icons-react';
import { useNavigate } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import type { Found } from '../api/types.ts';
import { useGet } from '../api/use-get.ts';
import { describeError } from '../parts/failure.tsx';

const ICONS = { push: IconSend, device: IconDeviceMobile, app: IconApps };
const DELAY_MS = 200;

/** Finds pushes, devices and apps. Opens with each further request. */
export function Search({ requests }: { requests: number }) {
  useEffect(() => {
    if (requests > 0) spotlight.open();
  }, [requests]);
  const [text, setText] = useState('');
  const [typed] = useDebouncedValue(text.trim(), DELAY_MS);
  const found = useGet('/find', { q: typed }, { enabled: typed !== '' });
  const items = typed === '' ? [] : (found.data?.items ?? []);
  const open = useOpenFound();
  return (
    <Spotlight.Root query={text} onQueryChange={setText} shortcut={null} scrollable>
      <Spotlight.Search
        aria-label="Find"
        placeholder="Push id, device token, provider token, app name or id"
        leftSection={<IconSearch size={18} aria-hidden />}
      />
      <Spotlight.ActionsList>
        {items.map((item) => {
          const Icon = ICONS[item.kind];
          return (
            <Spotlight.Action
              key={`${item.kind}:${item.id}`}
              label={item.label}
              description={item.id}
              leftSection={<Icon size={18} aria-hidden />}
              onClick={() => open(item)}
            />
          );
        })}
        {items.length === 0 && (
          <Spotlight.Empty>{describeNothing(typed, found.isFetching, found.error)}</Spotlight.Empty>
        )}
      </Spotlight.ActionsList>
    </Spotlight.Root>
  );
}

function useOpenFound() {
  const navigate = useNavigate();
  return ({ kind, id }: Found): void => {
    if (kind === 'push') void navigate({ to: '/pushes/$push', params: { push: id } });
    else if (kind === 'device') void navigate({ to: '/devices/$token', params: { token: id } });
    else void navigate({ to: '/apps/$app/pushes', params: { app: id } });
  };
}

function describeNothing(typed: string, isFetching: boolean, error: unknown): string {
  if (typed === '') return 'Ids and tokens are found whole, apps also by a part of their name.';
  if (isFetching) return 'Searching …';
  return error === null ? 'Nothing found that you have access to.' : describeError(error).text;
}
