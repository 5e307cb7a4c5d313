import { Box, Group, Stack, Text, Title } from '@mantine/core';
import { type ReactNode, useEffect } from 'react';

interface PageProps {
  title: string;
  /** Shown instead of the title, which stays the document's. */
  heading?: ReactNode;
  description?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

/** Shows a page: its heading, its actions, and its content. */
export function Page({ title, heading, description, actions, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Carillon`;
  }, [title]);
  return (
    <Stack gap="md">
      <Group justify="space-between" align="flex-start" gap="sm">
        <Box miw={0}>
          <Title order={1} fz={22} lh={1.3}>
            {heading ?? title}
          </Title>
          {description !== undefined && (
            <Text c="dimmed" fz="sm" maw={720} component="div">
              {description}
            </Text>
          )}
        </Box>
        {actions !== undefined && <Group gap="xs">{actions}</Group>}
      </Group>
      {children}
    </Stack>
  );
}
