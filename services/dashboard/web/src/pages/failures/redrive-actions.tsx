import { Button, Group } from '@mantine/core';
import { change } from '../../api/request.ts';
import type { FailedPush } from '../../api/types.ts';
import { useChange } from '../../api/use-change.ts';
import { confirm } from '../../parts/confirm.tsx';

interface RedriveActionsProps {
  app: string;
  filter: Record<string, string | number | undefined>;
  selected: readonly FailedPush[];
  onStart: (id: string) => void;
}

/** Re-drives the selected pushes, or all that the filter selects. */
export function RedriveActions({ app, filter, selected, onStart }: RedriveActionsProps) {
  const start = useChange({
    run: (pushes: string[] | undefined) =>
      change('POST', `/apps/${app}/redrives`, { filter, pushes }),
    onDone: ({ id }) => onStart(id),
  });
  const pushes = [...new Set(selected.map(({ push }) => push))];
  const many = pushes.length === 1 ? '1 push' : `${pushes.length} pushes`;
  const ask = (title: string, chosen: string[] | undefined) =>
    confirm({
      title,
      text: 'Each push is sent anew to those of its devices that failed and fit the filter. Expired pushes, and those with a newer push of their collapse key, are skipped.',
      action: 'Re-drive',
      isDangerous: false,
      onConfirm: () => start.mutate(chosen),
    });
  return (
    <Group gap="xs">
      <Button
        size="xs"
        disabled={pushes.length === 0}
        loading={start.isPending}
        onClick={() => ask(`Re-drive ${many}?`, pushes)}
      >
        {pushes.length === 0 ? 'Re-drive selected' : `Re-drive ${many}`}
      </Button>
      <Button
        size="xs"
        variant="default"
        loading={start.isPending}
        onClick={() => ask('Re-drive all that fit the filter?', undefined)}
      >
        Re-drive all of the filter
      </Button>
    </Group>
  );
}
