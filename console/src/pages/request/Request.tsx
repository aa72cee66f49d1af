// The page Request: a form, and beside it what the scheduler says of it while it is typed.
import { useDebouncedValue } from '@mantine/hooks'
import { skipToken, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useEffect, useMemo, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { makeKey } from '../../api/client'
import { type Preview, previewJob, submitJob } from '../../api/preview'
import { isRefused, Problem } from '../../api/problem'
import { writeFieldProblem } from '../../ui/FormDialog'
import { Page } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { NotebookButton } from '../../workspace/NotebookButton'
import { buildBody, cloneJob, FIRST_TEMPLATE, type Form, findField, isFault, TEMPLATES } from './form'
import { PreviewPanel } from './PreviewPanel'
import { RequestForm } from './RequestForm'
import { askSource } from './source'
import { WrittenPanel } from './WrittenPanel'

const TYPING_MS = 300

export function Request() {
  const { t } = useTranslation('request')
  const navigate = useNavigate()
  const queries = useQueryClient()
  const { clone } = useSearch({ strict: false }) as { clone?: string }
  const [template, setTemplate] = useState(clone ? '' : FIRST_TEMPLATE)
  const [form, setForm] = useState<Form>(TEMPLATES[FIRST_TEMPLATE] as Form)
  const source = useQuery(askSource(clone))
  useEffect(() => {
    if (source.data) setForm(cloneJob(source.data))
  }, [source.data])

  const [settled] = useDebouncedValue(form, TYPING_MS)
  const body = useMemo(() => buildBody(settled), [settled])
  const fault = isFault(body) ? body : null
  const preview = useQuery({
    queryKey: ['preview', body],
    queryFn: isFault(body) ? skipToken : ({ signal }: { signal: AbortSignal }) => previewJob(body, signal),
    placeholderData: (previous: Preview | undefined) => previous,
    staleTime: 2000,
  })
  const key = useRef(makeKey())
  const submit = useMutation({
    mutationFn: async () => {
      const now = buildBody(form)
      if (isFault(now)) throw new Error(now.key)
      return submitJob(now, key.current)
    },
    onSuccess: (answer) => {
      void queries.invalidateQueries({ queryKey: ['jobs'] })
      void navigate({ to: '/jobs/$job', params: { job: answer.first.id } })
    },
    // Another body needs another key; the same key with it would be refused.
    onError: (error) => {
      if (error instanceof Problem) key.current = makeKey()
    },
  })

  const errors = useMemo(() => {
    const found = new Map<keyof Form, string>()
    if (fault !== null) found.set(fault.field, t(`fault.${fault.key}`, { detail: fault.detail }))
    for (const error of [preview.error, submit.error]) {
      if (!(error instanceof Problem)) continue
      for (const [name, problem] of error.fields) {
        const field = findField(name)
        if (field !== null) found.set(field, writeFieldProblem(problem, error))
      }
    }
    return found
  }, [fault, preview.error, submit.error, t])
  const change = (part: Partial<Form>) => {
    submit.reset()
    setForm((before) => ({ ...before, ...part }))
  }
  return (
    <Page
      title={t('menu')}
      sentence={t('sentence')}
      actions={
        <>
          <Link to="/templates">{t('templates')}</Link>
          <NotebookButton />
        </>
      }
    >
      {source.isError && <Refusal error={source.error} />}
      <form
        className="grid request"
        onSubmit={(event) => {
          event.preventDefault()
          submit.mutate()
        }}
      >
        <RequestForm
          form={form}
          change={change}
          errors={errors}
          template={template}
          choose={(name) => {
            setTemplate(name)
            change({ ...(TEMPLATES[name] as Form), name: form.name, project: form.project })
          }}
        />
        <div className="grid beside">
          <PreviewPanel
            preview={fault === null ? preview.data : undefined}
            error={submit.error ?? (preview.isError ? preview.error : null)}
            isOld={preview.isPlaceholderData || settled !== form}
            isSubmitting={submit.isPending}
            canSubmit={fault === null && !isRefused(preview.error) && preview.data?.outcome !== 'never'}
            form={form}
          />
          <WrittenPanel command={preview.data?.command ?? null} manifest={preview.data?.manifest ?? null} />
        </div>
      </form>
    </Page>
  )
}
