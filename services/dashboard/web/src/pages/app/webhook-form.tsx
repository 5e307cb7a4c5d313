import { Button, Checkbox, Stack, TextInput } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { change } from '../../api/request.ts';
import { useChange } from '../../api/use-change.ts';
import { Dialog } from '../../parts/dialog.tsx';

interface WebhookFormProps {
  app: string;
  eventNames: readonly string[];
  onClose: () => void;
  /** Is given the new webhook's secret. */
  onSecret: (secret: string) => void;
}

/** Adds a webhook. The server checks the address, and where it leads at each request. */
export function WebhookForm({ app, eventNames, onClose, onSecret }: WebhookFormProps) {
  const [url, setUrl] = useState('');
  const [isAll, setAll] = useState(true);
  const [chosen, setChosen] = useState<string[]>([]);
  const path = `/apps/${app}/webhooks`;
  const events = isAll ? eventNames : chosen;
  const add = useChange({
    run: () => change<{ secret: string }>('POST', path, { url, events }),
    outdated: [[path]],
    onDone: ({ secret }) => {
      onClose();
      onSecret(secret);
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    add.mutate();
  };
  return (
    <Dialog opened onClose={onClose} title="Add a webhook">
      <form onSubmit={submit}>
        <Stack gap="sm">
          <TextInput
            label="Address"
            description="https, with a public address; private ones need WEBHOOK_HOSTS"
            placeholder="https://backend.example.com/carillon"
            required
            withAsterisk={false}
            spellCheck={false}
            autoComplete="off"
            data-autofocus
            value={url}
            onChange={({ currentTarget }) => setUrl(currentTarget.value)}
          />
          <Checkbox
            label="All events"
            checked={isAll}
            onChange={({ currentTarget }) => setAll(currentTarget.checked)}
          />
          {!isAll && (
            <Checkbox.Group
              label="Events"
              description="They can’t be changed later: add another webhook for others."
              value={chosen}
              onChange={setChosen}
            >
              <Stack gap={6} mt={6}>
                {eventNames.map((name) => (
                  <Checkbox key={name} value={name} label={name} />
                ))}
              </Stack>
            </Checkbox.Group>
          )}
          <Button type="submit" loading={add.isPending} disabled={events.length === 0}>
            Add
          </Button>
        </Stack>
      </form>
    </Dialog>
  );
}
