import { Button, Group, Stack, Text } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { handleError } from '../../api/query-client.ts';
import { change } from '../../api/request.ts';
import type { Webhook } from '../../api/types.ts';
import { type RangeSearch, readRange } from '../../lib/time-range.ts';
import { formatCount } from '../../lib/times.ts';
import { Dialog } from '../../parts/dialog.tsx';
import { Failure } from '../../parts/failure.tsx';
import { RangeFilter } from '../../parts/filters.tsx';

interface ReplayFormProps {
  app: string;
  webhook: Webhook;
  name: string;
  onClose: () => void;
}

/** Reports the pushes of a time range to a webhook again. The server marks some of them with each request. */
export function ReplayForm({ app, webhook, name, onClose }: ReplayFormProps) {
  const [range, setRange] = useState<RangeSearch>({ range: '1h' });
  const [marked, setMarked] = useState(0);
  const isOpen = useIsMounted();
  const client = useQueryClient();
  const list = `/apps/${app}/webhooks` as const;
  const replay = useMutation({
    mutationFn: async () => {
      const now = Date.now();
      const { from = 0, to = now } = readRange(range, now);
      let pushes = 0;
      let after: string | undefined;
      do {
        const path = `${list}/${webhook.id}/replay` as const;
        const part = await change('POST', path, {
          ...{ from, to, after },
        });
        pushes += part.pushes;
        after = part.last;
        setMarked(pushes);
      } while (after !== undefined && isOpen.current);
    },
    onMutate: () => setMarked(0),
    onError: handleError,
    onSettled: () => client.invalidateQueries({ queryKey: [list] }),
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    replay.mutate();
  };
  return (
    <Dialog opened onClose={onClose} title={`Replay to ${name}`} size="lg">
      <form onSubmit={submit}>
        <Stack gap="md">
          <Text fz="sm">
            The pushes that were accepted in this time are reported again, as far as they are
            stored. Their events have the ids that they had before.
          </Text>
          <Group gap="xs" align="flex-end">
            <RangeFilter value={range} onChange={setRange} />
          </Group>
          {replay.isError && <Failure error={replay.error} />}
          {(replay.isPending || replay.isSuccess) && (
            <Text fz="sm" role="status">
              {replay.isPending
                ? `${formatCount(marked)} pushes so far. Closing this window stops it.`
                : `${formatCount(marked)} pushes are reported again.`}
            </Text>
          )}
          <Group>
            <Button type="submit" loading={replay.isPending}>
              Replay these pushes
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}

/** Returns whether the component is still shown, for work that continues without it. */
function useIsMounted() {
  const isMounted = useRef(true);
  useEffect(() => {
    isMounted.current = true;
    return () => {
      isMounted.current = false;
    };
  }, []);
  return isMounted;
}
