// One template: its form, and beside it what the scheduler says of the job while it is typed.
import { TextInput } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { skipToken, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useMemo, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { makeKey } from '../../api/client'
import { type Preview, previewJob } from '../../api/preview'
import { Problem } from '../../api/problem'
import { type Rendering, renderTemplate, runTemplate, type Template, type TemplateUse } from '../../api/templates'
import { writeFieldProblem } from '../../ui/FormDialog'
import { MILLI } from '../../ui/format'
import { CopyButton, Panel } from '../../ui/Page'
import { PreviewPanel } from '../request/PreviewPanel'
import { WrittenPanel } from '../request/WrittenPanel'
import { FieldInput } from './FieldInput'
import { beginValues, chooseWords, isComplete, listFields, readValues } from './fields'

const TYPING_MS = 300
const NAME_FIELD = 'name'

interface Answer {
  rendering: Rendering
  preview: Preview
}

/** Render, then ask for the preview of what was rendered. Neither writes anything. */
async function previewTemplate(template: string, use: TemplateUse, signal: AbortSignal): Promise<Answer> {
  const rendering = await renderTemplate(template, use, signal)
  return { rendering, preview: await previewJob(rendering.job, signal) }
}

export function TemplateForm({ template }: { template: Template }) {
  const { t, i18n } = useTranslation('templates')
  const navigate = useNavigate()
  const queries = useQueryClient()
  const { document } = template
  const fields = document.fields ?? {}
  const [values, setValues] = useState(() => beginValues(fields))
  const [name, setName] = useState('')
  const use = useMemo<TemplateUse>(
    () => ({
      values: readValues(fields, values),
      owner: template.tenant ?? null,
      version: document.version,
      name: name.trim() || null,
    }),
    [fields, values, name, template.tenant, document.version],
  )
  const [settled] = useDebouncedValue(use, TYPING_MS)
  const answer = useQuery({
    queryKey: ['template-preview', template.name, settled],
    queryFn: isComplete(fields, settled.values)
      ? ({ signal }: { signal: AbortSignal }) => previewTemplate(template.name, settled, signal)
      : skipToken,
    placeholderData: (previous: Answer | undefined) => previous,
    staleTime: 2000,
  })
  const shownName = answer.data?.rendering.job.name ?? null
  const key = useRef(makeKey())
  const run = useMutation({
    // The name that is shown, also where the server made it: the commands to type next have it.
    mutationFn: () => runTemplate(template.name, { ...use, name: use.name ?? shownName }, key.current),
    onSuccess: (submitted) => {
      void queries.invalidateQueries({ queryKey: ['jobs'] })
      void navigate({ to: '/jobs/$job', params: { job: submitted.first.id } })
    },
    // Another body needs another key; the same key with it would be refused.
    onError: (error) => {
      if (error instanceof Problem) key.current = makeKey()
    },
  })
  const errors = new Map<string, string>()
  for (const error of [answer.error, run.error]) {
    if (!(error instanceof Problem)) continue
    for (const [field, problem] of error.fields) errors.set(field, writeFieldProblem(problem, error))
  }
  const change = (field: string, value: string) => {
    run.reset()
    setValues((before) => ({ ...before, [field]: value }))
  }
  const shown = answer.isError || !isComplete(fields, use.values) ? undefined : answer.data
  const shape = shown?.rendering.job.shape
  return (
    <form
      className="grid request"
      onSubmit={(event) => {
        event.preventDefault()
        run.mutate()
      }}
    >
      <Panel
        title={template.name}
        hint={t('version', { version: document.version, owner: template.tenant ?? t('everybody') })}
      >
        <p className="sub">{chooseWords(document.summary, i18n.language)}</p>
        <div className="grid fields">
          {listFields(fields).map((field) => (
            <FieldInput
              key={field.name}
              field={field}
              takes={template.takes[field.name] ?? ''}
              value={values[field.name] ?? ''}
              error={errors.get(field.name)}
              change={(value) => change(field.name, value)}
            />
          ))}
          <TextInput
            label={t('jobName')}
            description={t('jobNameHint')}
            value={name}
            error={errors.get(NAME_FIELD)}
            onChange={(event) => {
              run.reset()
              setName(event.currentTarget.value)
            }}
          />
        </div>
      </Panel>
      <div className="grid beside">
        <PreviewPanel
          preview={shown?.preview}
          error={run.error ?? (answer.isError ? answer.error : null)}
          isOld={answer.isPlaceholderData || settled !== use}
          isSubmitting={run.isPending}
          canSubmit={template.enabled && !answer.isError && shown !== undefined && shown.preview.outcome !== 'never'}
          form={{
            gpu: (shape?.gpu_milli ?? 0) / MILLI,
            count: shape?.count ?? 1,
            preemptible: shown?.rendering.job.preemptible ?? false,
          }}
        />
        <WrittenPanel command={shown?.rendering.command ?? null} manifest={shown?.rendering.manifest ?? null} />
        {shown !== undefined && (shown.rendering.follow ?? []).length > 0 && (
          <Panel title={t('next')} hint={t('nextHint')}>
            {(shown.rendering.follow ?? []).map((line) => (
              <div key={line} className="cli">
                <code className="mono">{line}</code>
                <CopyButton text={line} label={t('copy')} />
              </div>
            ))}
          </Panel>
        )}
      </div>
    </form>
  )
}
