import { Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { RequestError } from '../../api/request.ts';
import { useGet } from '../../api/use-get.ts';
import { useUrl } from '../../lib/use-url.ts';
import { Loaded } from '../../parts/loaded.tsx';
import { Panel } from '../../parts/panel.tsx';
import { RecipientFacts } from '../../parts/recipient-facts.tsx';

/** Reads the outcome of the push for one device. The token is in the URL. */
export function RecipientPanel({ push }: { push: string }) {
  const { search, change } = useUrl<'token'>();
  const [text, setText] = useState(search.token ?? '');
  const find = (event: FormEvent): void => {
    event.preventDefault();
    change({ token: text.trim() || undefined });
  };
  return (
    <Panel title="One device">
      <Stack gap="md">
        <form onSubmit={find}>
          <Group gap="xs" align="flex-end">
            <TextInput
              size="xs"
              label="Device token"
              w={{ base: '100%', xs: 320 }}
              spellCheck={false}
              value={text}
              onChange={({ currentTarget }) => setText(currentTarget.value)}
            />
            <Button size="xs" type="submit" variant="default">
              How did it end?
            </Button>
          </Group>
        </form>
        {search.token !== undefined && <Answer push={push} token={search.token} />}
      </Stack>
    </Panel>
  );
}

function Answer({ push, token }: { push: string; token: string }) {
  const recipient = useGet(`/pushes/${push}/recipients/${encodeURIComponent(token)}`);
  const { error } = recipient;
  if (error instanceof RequestError && error.status === 404) {
    return (
      <Text fz="sm" role="status">
        This device is not a recipient of the push.
      </Text>
    );
  }
  return (
    <Loaded query={recipient} height={48}>
      {(found) => <RecipientFacts recipient={found} />}
    </Loaded>
  );
}
